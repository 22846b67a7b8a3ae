"""Checks an OpenAPI document against the standard's own schema with openapi-spec-validator.

    openapi.py FILE     prints `valid`, or every mistake, and then ends with 1
"""

import json
import sys

from openapi_spec_validator import OpenAPIV31SpecValidator

with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
mistakes = list(OpenAPIV31SpecValidator(document).iter_errors())
for mistake in mistakes:
    print("/".join(map(str, mistake.absolute_path)), mistake.message[:300])
if mistakes:
    sys.exit(1)
print("valid")

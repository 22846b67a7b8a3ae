"""Holds OCSF events, one JSON object a line of the file, against the published schema of their class. Prints one line for each event: how many errors, and the first."""

import json
import sys

import jsonschema
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

schemas = OcsfJsonSchemaEmbedded(get_ocsf_schema("1.8.0"))
validators = {
    uid: jsonschema.Draft202012Validator(schemas.get_class_schema(name, ["security_control"]))
    for uid, name in ((3004, "entity_management"), (6003, "api_activity"))
}

with open(sys.argv[1], encoding="utf-8", newline="\n") as file:
    for line in file:
        event = json.loads(line)
        validator = validators[event["class_uid"]]
        errors = sorted(validator.iter_errors(event), key=str)
        # The number of a type is made of two others, which the schema cannot say.
        if event.get("type_uid") != event["class_uid"] * 100 + event.get("activity_id", -1):
            errors.append("type_uid is not that of the class and the activity")
        first = str(errors[0]).split("\n")[0] if errors else ""
        print(len(errors), first)

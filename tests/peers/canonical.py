"""Says how many of a file's lines are not their own canonical form (RFC 8785) by another implementation."""

import json
import sys

import rfc8785

with open(sys.argv[1], encoding="utf-8", newline="\n") as file:
    lines = file.read().split("\n")
differ = [line for line in lines if rfc8785.dumps(json.loads(line)) != line.encode()]
print(f"{len(lines)} documents, {len(differ)} differ")
for line in differ[:3]:
    print(line, rfc8785.dumps(json.loads(line)).decode())

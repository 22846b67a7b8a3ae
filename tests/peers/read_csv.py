"""Reads a CSV file by the standard library, strictly, and prints it as a JSON array of rows."""

import csv
import json
import sys

with open(sys.argv[1], encoding="utf-8", newline="") as file:
    print(json.dumps(list(csv.reader(file, strict=True))))

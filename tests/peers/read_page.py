"""Reads an HTML file as a browser does. Prints JSON: the parser's errors, every element with how often it stands, attributes of each, and the text."""

import json
import sys

import html5lib

with open(sys.argv[1], "rb") as file:
    parser = html5lib.HTMLParser(strict=False)
    document = parser.parse(file.read(), transport_encoding="utf-8")

elements, attributes = {}, []
for element in document.iter():
    name = element.tag.split("}")[-1] if isinstance(element.tag, str) else "comment"
    elements[name] = elements.get(name, 0) + 1
    attributes += [[name, key, value] for key, value in element.attrib.items()]
body = next(element for element in document.iter() if str(element.tag).endswith("}body"))
errors = [f"{line}:{column} {code}" for (line, column), code, _ in parser.errors]
print(json.dumps({"errors": errors, "elements": elements, "attributes": attributes, "text": "".join(body.itertext())}))

"""What schemathesis does not know of itself: who it is, ids of things that exist, and bodies that the program can take."""

import json
import os
from base64 import b64encode

import schemathesis

WORLD = json.loads(os.environ["WRIT_CONTRACT"])


@schemathesis.auth()
class Caller:
    """The client's id and secret, or a credential where the call spends one."""

    def get(self, case, context):
        return WORLD

    def set(self, case, data, context):
        if case.operation.path == "/v1/executions" and case.operation.method.lower() == "post":
            if data["credential"]:
                case.headers["Authorization"] = f"Bearer {data['credential']}"
        elif data["client"]:
            pair = f"{data['client']}:{data['secret']}"
            case.headers["Authorization"] = "Basic " + b64encode(pair.encode()).decode()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Of the calls that are meant to be right every other one is about something that is there."""
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or hash_of(case) % 2:
        return
    known = WORLD["ids"].get(case.operation.path)
    if known and case.path_parameters:
        case.path_parameters["id"] = known
    body = WORLD["bodies"].get(case.operation.path)
    if body is not None and isinstance(case.body, dict):
        case.body = body


def hash_of(case):
    """The same number for the same case in every run."""
    return len(json.dumps([str(case.path_parameters), str(case.query), str(case.body)]))

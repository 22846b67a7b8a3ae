"""Judges tests/vectors/credential.json with biscuit-python: the key of the token's own id, the authorizer of the case, nothing else."""

import json
import sys
from datetime import datetime, timedelta, timezone

from biscuit_auth import Algorithm, AuthorizerBuilder, Biscuit, PublicKey


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def provider(keys, at):
    def choose(kid):
        for key in keys:
            if key["key_id"] == kid and moment(key["not_before"]) <= at < moment(key["expires_at"]):
                return PublicKey.from_bytes(bytes.fromhex(key["key_bytes"]), Algorithm.Ed25519)
        raise ValueError(f"no key {kid}")

    return choose


def judge(vectors, case):
    try:
        token = Biscuit.from_base64(case["token"], provider(vectors["keys"], moment(case["at"])))
        builder = AuthorizerBuilder(case["authorizer"])
        limits = builder.limits()
        limits.max_time = timedelta(seconds=5)
        builder.set_limits(limits)
        return "allows" if builder.build(token).authorize() == 0 else "refuses"
    except Exception as error:  # every error is a refusal
        if "-v" in sys.argv:
            print(f"  {case['name']}: {error!r}")
        return "refuses"


with open(sys.argv[1], encoding="utf-8") as file:
    vectors = json.load(file)
wrong = [case["name"] for case in vectors["cases"] if judge(vectors, case) != case["stock_library"]]
print(f"biscuit-python: {len(vectors['cases'])} credentials, {len(wrong)} judged otherwise than written{': ' if wrong else ''}{', '.join(wrong)}")
sys.exit(1 if wrong else 0)

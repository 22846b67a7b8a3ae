"""Approval records with joserfc.

approval.py check VECTORS   judges tests/vectors/approval.json: joserfc for the signature, the rules of the record written out here
approval.py sign REQUEST    signs the claims in the file, once for each key and algorithm name in it, and prints one record a line
approval.py keys            makes a private key of each kind and prints them in PEM, as JSON
"""

import base64
import json
import sys
import warnings
from datetime import datetime

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey

warnings.simplefilter("ignore")  # joserfc warns about the older name EdDSA
ALGORITHMS = {"ES256": ["ES256"], "Ed25519": ["EdDSA", "Ed25519"]}
APR = {"v", "decision", "draft_id", "draft_hash", "request_nonce", "verdict_id", "policy", "by", "reason", "execute_by"}


def encode(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text):
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    require(encode(raw) == text, "not canonical base64url")
    return raw


def require(condition, why):
    if not condition:
        raise ValueError(why)


def closed(pairs):
    require(len({name for name, _ in pairs}) == len(pairs), "a key appears twice")
    return dict(pairs)


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def public(key):
    raw = decode(key["public"])
    if key["kind"] == "ES256":
        return ECKey.import_key({"kty": "EC", "crv": "P-256", "x": encode(raw[1:33]), "y": encode(raw[33:])})
    return OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": encode(raw)})


def verify(record, key, audience, now):
    parts = record.split(".")
    require(len(parts) == 3, "not three parts")
    header = json.loads(decode(parts[0]), object_pairs_hook=closed)
    decode(parts[2])
    require(set(header) == {"typ", "alg", "kid"}, "the header's members")
    require(header["typ"] == "approval+jwt", "typ")
    require(header["kid"] == key["kid"], "kid")
    require(header["alg"] in ALGORITHMS[key["kind"]], "alg")
    verified = jws.deserialize_compact(record, public(key), algorithms=ALGORITHMS[key["kind"]])
    claims = json.loads(verified.payload, object_pairs_hook=closed)
    apr = claims["apr"]
    require(moment(key["not_before"]) <= min(now, claims["iat"] + 5), "the key's first moment")
    require(key["not_after"] is None or max(now, claims["iat"]) < moment(key["not_after"]), "the key's last moment")
    require(key["revoked_at"] is None or now < moment(key["revoked_at"]), "revoked")
    require(claims["aud"] == audience, "aud")
    require(claims["iss"] == key["issuer"] and claims["sub"] == key["approver"] == apr["by"]["id"], "iss, sub, by")
    require(claims["iat"] - 5 <= now and claims["nbf"] - 5 <= now < claims["exp"], "times")
    require(0 < claims["exp"] - claims["iat"] <= 3600 and claims["nbf"] < claims["exp"], "lifetime")
    require(set(apr) <= APR and apr["v"] == 1, "apr")
    require(len(decode(apr["request_nonce"])) == 16, "nonce")
    require(apr["decision"] in ("approve", "deny"), "decision")
    require(apr["decision"] == "approve" or apr.get("reason", "").strip(), "reason")


def check(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    keys = {key["kid"]: key for key in vectors["keys"]}
    wrong = []
    for case in vectors["cases"]:
        try:
            verify(case["record"], keys[case["key"]], vectors["audience"], moment(case["at"]))
            answer = "accepted"
        except Exception as error:  # every error is a refusal
            answer = "refused"
            if "-v" in sys.argv:
                print(f"  {case['name']}: {error!r}")
        if (answer == "accepted") != (case["expected"] == "accepted"):
            wrong.append(case["name"])
    print(f"joserfc: {len(vectors['cases'])} records, {len(wrong)} judged otherwise than written{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


def sign(path):
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    payload = json.dumps(request["claims"]).encode()
    for key in request["keys"]:
        private = (ECKey if key["kind"] == "ES256" else OKPKey).import_key(key["pem"])
        for alg in ALGORITHMS[key["kind"]]:
            header = {"alg": alg, "kid": key["kid"], "typ": "approval+jwt"}
            print(jws.serialize_compact(header, payload, private, algorithms=[alg]))
    return 0


def keys():
    made = {"ES256": ECKey.generate_key("P-256", private=True), "Ed25519": OKPKey.generate_key("Ed25519", private=True)}
    print(json.dumps({kind: key.as_pem(private=True).decode() for kind, key in made.items()}))
    return 0


sys.exit({"check": check, "sign": sign, "keys": keys}[sys.argv[1]](*sys.argv[2:3]))

"""A prover's report with joserfc.

proof.py FILE PUBLIC    verifies the file under the P-256 key (an uncompressed point in base64url) and prints its header, the report in it, and whether
                        the file is refused once a character of the report is replaced
"""

import base64
import json
import sys

from joserfc import jws
from joserfc.errors import BadSignatureError
from joserfc.jwk import ECKey


def encode(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


raw = base64.urlsafe_b64decode(sys.argv[2] + "=" * (-len(sys.argv[2]) % 4))
key = ECKey.import_key({"kty": "EC", "crv": "P-256", "x": encode(raw[1:33]), "y": encode(raw[33:])})
with open(sys.argv[1], encoding="ascii") as file:
    signed = file.read()
read = jws.deserialize_compact(signed, key, algorithms=["ES256"])
middle = len(signed) // 2
edited = signed[:middle] + ("B" if signed[middle] == "A" else "A") + signed[middle + 1 :]
try:
    jws.deserialize_compact(edited, key, algorithms=["ES256"])
    verdict = "accepted"
except BadSignatureError:
    verdict = "refused"
print(json.dumps({"header": read.headers(), "report": json.loads(read.payload), "edited": verdict}))

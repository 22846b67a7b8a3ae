"""Checks drafts.json with an RFC 8785 implementation from the Python registry and nothing of this program.

Usage: check.py [FILE]. Ends with a line that counts; exit status 1 if a check failed.
"""

import base64
import hashlib
import json
import pathlib
import sys
import uuid

import rfc8785


def tagged(tag: str, data: bytes) -> bytes:
    return hashlib.sha256(tag.encode() + b"\x00" + data).digest()


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def key_of(tag: str, digest: bytes) -> str:
    """The first 16 bytes under the key's tag, as a UUID of version 8 and the RFC 9562 variant."""
    raw = bytearray(tagged(tag, digest)[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def wire_body(request: dict, placeholder: str, key: str) -> bytes:
    body = bytearray(request["body"].encode())
    for offset in request.get("key_offsets", []):
        slot = slice(offset, offset + len(placeholder))
        assert body[slot] == placeholder.encode(), f"no placeholder at byte {offset}"
        body[slot] = key.encode()
    return bytes(body)


def faults(document: dict, vector: dict) -> list[str]:
    """What is wrong with a vector; empty if nothing is."""
    found = []
    canonical = vector["canonical"].encode()
    if rfc8785.dumps(vector["input"]) != canonical:
        found.append("the canonical form of the input is another one")
    digest = tagged(document["draft_tag"], canonical)
    if base64url(digest) != vector["draft_hash"]:
        found.append("the canonical bytes hash to something else")
    if key_of(document["key_tag"], digest) != vector["idempotency_key"]:
        found.append("another key follows from the hash")
    request = vector["input"]["request"]
    if base64url(hashlib.sha256(request["body"].encode()).digest()) != request["body_sha256"]:
        found.append("the body hashes to something else")
    if wire_body(request, document["placeholder"], vector["idempotency_key"]) != vector["wire_body"].encode():
        found.append("the body on the wire is another one")
    return found


def spoiled(vector: dict):
    """Copies of a vector that are each wrong in one place."""
    middle = len(vector["canonical"]) // 2
    text = vector["canonical"]
    other = "y" if text[middle] == "x" else "x"
    yield "a changed byte", vector | {"canonical": text[:middle] + other + text[middle + 1 :]}
    yield "a byte too many", vector | {"canonical": text + " "}
    yield "another salt", vector | {"input": vector["input"] | {"salt": "AAAAAAAAAAAAAAAAAAAAAA"}}
    yield "another hash", vector | {"draft_hash": "A" + vector["draft_hash"][1:] if vector["draft_hash"][0] != "A" else "B" + vector["draft_hash"][1:]}
    yield "another key", vector | {"idempotency_key": "00000000-0000-8000-8000-000000000000"}
    yield "another body on the wire", vector | {"wire_body": vector["wire_body"] + "&"}


def main() -> int:
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("drafts.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    passed, failed = 0, 0

    def check(name: str, fine: bool, why: str) -> None:
        nonlocal passed, failed
        passed, failed = passed + fine, failed + (not fine)
        if not fine:
            print(f"{path.name}: {name}: {why}")

    check("the file", len(document["vectors"]) >= 12, "fewer than 12 vectors")
    for vector in document["vectors"]:
        found = faults(document, vector)
        check(vector["name"], not found, "; ".join(found))
        for what, copy in spoiled(vector):
            check(vector["name"], bool(faults(document, copy)), f"{what} was not noticed")
    print(f"vectors in Python: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

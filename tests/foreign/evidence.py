"""What of a log is shown to a verifier, and how the parts of it are read and, for tampering, written."""

import base64
import copy
import dataclasses
import hashlib
import pathlib
import shutil

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclasses.dataclass
class Evidence:
    """One claim about a log: its signed head, an entry with its proof, an older head with its proof, and the tiles."""

    vkey: str
    note: str
    old: str
    leaf: bytes
    index: int
    proof: list
    consistency: list
    tiles: pathlib.Path
    cosigned: str = ""
    witness: str = ""
    max_age: int = 3600

    def but(self, **changes):
        return dataclasses.replace(copy.deepcopy(self), **changes)


def body(note):
    """The origin, the size and the root that a note signs."""
    origin, size, root = note.split("\n\n")[0].split("\n")[:3]
    return origin, int(size), root


def with_body(note, size=None, root=None):
    """The note with another size or root under the old signatures."""
    origin, old_size, old_root = body(note)
    return f"{origin}\n{old_size if size is None else size}\n{root or old_root}\n\n" + note.split("\n\n", 1)[1]


def flipped(line, byte=-1):
    """The signature line with one bit of its signature changed."""
    dash, name, blob = line.split(" ")
    raw = bytearray(base64.b64decode(blob))
    raw[byte] ^= 1
    return f"{dash} {name} {base64.b64encode(raw).decode()}"


def flipped_hash(hash):
    raw = bytearray(base64.b64decode(hash))
    raw[0] ^= 1
    return base64.b64encode(raw).decode()


def lines(note):
    return note.split("\n\n", 1)[1].rstrip("\n").split("\n")


def with_lines(note, signatures):
    return note.split("\n\n")[0] + "\n\n" + "".join(line + "\n" for line in signatures)


class Key:
    """A key of a log, as in its key file, in the hands of whoever has it."""

    def __init__(self, name, seed):
        self.name = name
        self.private = Ed25519PrivateKey.from_private_bytes(seed)
        public = self.private.public_key().public_bytes_raw()
        self.id = hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]
        self.vkey = f"{name}+{self.id.hex()}+{base64.b64encode(bytes([1]) + public).decode()}"

    @classmethod
    def read(cls, path):
        _, _, name, _, seed = path.read_text().strip().split("+", 4)
        return cls(name, base64.b64decode(seed)[1:])

    def sign(self, size, root, key_id=None):
        text = f"{self.name}\n{size}\n{root}\n"
        blob = base64.b64encode((key_id or self.id) + self.private.sign(text.encode())).decode()
        return f"{text}\n\N{EM DASH} {self.name} {blob}\n"



def read_entries(path):
    data, found = path.read_bytes(), []
    while data:
        end = 2 + int.from_bytes(data[:2])
        found.append(data[2:end])
        data = data[end:]
    return found


def write_entries(path, entries):
    path.write_bytes(b"".join(len(entry).to_bytes(2) + entry for entry in entries))


def all_entries(tiles):
    """The entries of a whole log in their order; there is one full directory level only for so few."""
    paths = sorted((p for p in (tiles / "tile/entries").rglob("*") if p.is_file()), key=lambda p: p.relative_to(tiles / "tile/entries").as_posix())
    return [entry for path in paths for entry in read_entries(path)]


def first_bundle(tiles):
    return min((p for p in (tiles / "tile/entries").rglob("*") if p.is_file()), key=lambda p: p.as_posix())


def copied(tiles, to, change):
    """A copy of the directory in which something was changed."""
    shutil.copytree(tiles, to)
    change(to)
    return to


def root_of(entries):
    """The root of RFC 6962 over the entries: for an attacker who builds a whole tree anew."""
    def build(hashes):
        if len(hashes) == 1:
            return hashes[0]
        split = 1 << (len(hashes) - 1).bit_length() - 1
        return hashlib.sha256(b"\x01" + build(hashes[:split]) + build(hashes[split:])).digest()

    return base64.b64encode(build([hashlib.sha256(b"\x00" + entry).digest() for entry in entries])).decode()

"""The verifiers, none of them ours. Each is asked what it can answer and says yes or no; here stands only the glue."""

import base64
import json
import subprocess
import sys

from evidence import all_entries, body, lines


class Tool:
    """A verifier. `asks` are the questions that it can answer."""

    name = ""
    asks = ()

    def judge(self, jobs):
        """For each (question, evidence) whether it accepts, with what it says if not."""
        return [self.one(question, evidence) for question, evidence in jobs]


def ran(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
    said = (done.stdout + done.stderr).strip().replace("\n", " ")
    return (done.returncode == 0, said)


class AicsTlog(Tool):
    """aics-tlog, a command line of another house: every question but the database's rows as a whole."""

    name = "aics-tlog"
    asks = ("checkpoint", "inclusion", "consistency", "tiles", "cosigned")

    def __init__(self, program, scratch):
        self.program, self.scratch, self.n = program, scratch, 0

    def file(self, content):
        self.n += 1
        path = self.scratch / f"aics-{self.n}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def one(self, question, e):
        key = ["--log-key", e.vkey]
        _, size, root = body(e.note)
        if question == "checkpoint":
            how = ["verify-checkpoint", "--note", self.file(e.note), *key]
        elif question == "inclusion":
            proof = self.file("".join(line + "\n" for line in e.proof))
            how = ["verify-inclusion", "--leaf", self.file(e.leaf), "--index", str(e.index), "--size", str(size), "--root", root, "--proof", proof]
        elif question == "consistency":
            _, old_size, old_root = body(e.old)
            proof = self.file("".join(line + "\n" for line in e.consistency))
            how = ["verify-consistency", "--old-size", str(old_size), "--new-size", str(size), "--old-root", old_root, "--new-root", root, "--proof", proof]
        elif question == "tiles":
            how = ["verify-inclusion", "--tiles", str(e.tiles), "--vkey-file", self.file(e.vkey + "\n"), "--index", "5"]
        else:
            witness = ["--witness-key", e.witness, "--quorum", "1", "--max-age", str(e.max_age)]
            how = ["verify-checkpoint", "--note", self.file(e.cosigned), *key, *witness]
        return ran([self.program, *how])


class Jobs(Tool):
    """A program of ours around a library: a list of jobs in, a list of errors out."""

    def __init__(self, command):
        self.command = command

    def judge(self, jobs):
        sent = json.dumps([self.job(question, evidence) for question, evidence in jobs])
        done = subprocess.run(self.command, input=sent, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            sys.exit(f"{self.name}: {done.stderr}")
        answers = json.loads(done.stdout)
        assert len(answers) == len(jobs), done.stdout
        return [(said == "", said) for said in answers]


class GoXMod(Jobs):
    """golang.org/x/mod/sumdb note and tlog: every entry against the tiles, and the tree anew from the entries."""

    name = "Go x/mod"
    asks = ("checkpoint", "inclusion", "consistency", "tiles", "entries")

    def job(self, question, e):
        leaf, proof = base64.b64encode(e.leaf).decode(), e.consistency if question == "consistency" else e.proof
        return dict(Do=question, Vkey=e.vkey, Note=e.note, Old=e.old, Leaf=leaf, Index=e.index, Proof=proof, Dir=str(e.tiles))


class SigstoreNode(Jobs):
    """@sigstore/verify of npm."""

    name = "@sigstore/verify"
    asks = ("checkpoint", "inclusion")

    def job(self, question, e):
        return dict(do=question, vkey=e.vkey, note=e.note, leaf=base64.b64encode(e.leaf).decode(), index=e.index, proof=e.proof)


class SigstorePython(Tool):
    """sigstore of PyPI: its own functions for heads and inclusion."""

    name = "sigstore"
    asks = ("checkpoint", "inclusion")

    def one(self, question, e):
        from types import SimpleNamespace

        from sigstore._internal.merkle import verify_merkle_inclusion
        from sigstore._internal.rekor.checkpoint import SignedCheckpoint
        from sigstore._internal.trust import Keyring
        from sigstore.errors import Error
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        name, key_id, key = e.vkey.split("+", 2)
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key)[1:])
        ring = Keyring()
        ring._keyring[bytes.fromhex(key_id)] = SimpleNamespace(verify=lambda signature, data: public.verify(signature, data))
        try:
            signed = SignedCheckpoint.from_text(e.note)
            signed.signed_note.verify(ring, bytes.fromhex(key_id))
            if signed.checkpoint.origin != name:
                return (False, "the head of another log")
            if question == "inclusion":
                root = bytes.fromhex(signed.checkpoint.log_hash)
                hashes = [base64.b64decode(line) for line in e.proof]
                proof = SimpleNamespace(log_index=e.index, tree_size=signed.checkpoint.log_size, hashes=hashes, root_hash=root)
                verify_merkle_inclusion(SimpleNamespace(_inner=SimpleNamespace(inclusion_proof=proof, canonicalized_body=e.leaf)))
        except (Error, InvalidSignature) as error:
            return (False, f"{type(error).__name__} {error}")
        return (True, "")


class PyMerkle(Tool):
    """pymerkle of PyPI: builds the whole tree anew from the rows, and proves by itself that the older head is its beginning."""

    name = "pymerkle"
    asks = ("history", "entries")

    def one(self, question, e):
        from pymerkle import InmemoryTree, InvalidProof, verify_consistency

        tree = InmemoryTree(algorithm="sha256")
        for entry in all_entries(e.tiles):
            tree.append_entry(entry)
        _, size, root = body(e.note)
        root = base64.b64decode(root)
        if tree.get_size() != size or tree.get_root() != root:
            return (False, "the rows have another root than the one that is signed")
        _, old_size, old_root = body(e.old)
        if question == "history":
            try:
                proof = tree.prove_consistency(old_size, size)
                verify_consistency(base64.b64decode(old_root), root, proof, prior_size=old_size, later_size=size)
            except InvalidProof as error:
                return (False, str(error))
        return (True, "")


class OpenSsl(Tool):
    """openssl: the signature under the head, and nothing of what it means."""

    name = "openssl"
    asks = ("checkpoint",)

    def __init__(self, scratch):
        self.scratch = scratch

    def one(self, question, e):
        name, key_id, key = e.vkey.split("+", 2)
        text, block = e.note.split("\n\n", 1)
        wanted = [line.split(" ")[2] for line in lines(e.note) if line.startswith(f"\N{EM DASH} {name} ")]
        blobs = [base64.b64decode(blob) for blob in wanted]
        blob = next((blob for blob in blobs if blob[:4].hex() == key_id), b"")
        public, note, signature = (self.scratch / f"openssl-{what}" for what in ("public", "note", "signature"))
        public.write_bytes(bytes.fromhex("302a300506032b6570032100") + base64.b64decode(key)[1:])
        note.write_text(text + "\n")
        signature.write_bytes(blob[4:])
        how = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", public, "-rawin", "-in", note, "-sigfile", signature]
        return ran(how)

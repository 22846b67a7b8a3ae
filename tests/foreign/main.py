"""A real log, shown to verifiers that nobody here wrote: each accepts it, and each rejects every tampering that it can see.

    main.py WRIT PEERS

WRIT is the program, PEERS the directory with the verifiers: venv312, node_modules and, if it could be built, xmod. Ends with
`foreign verifiers: N accept, N reject each of M tamperings`.
"""

import base64
import json
import os
import pathlib
import shutil
import sys
import tempfile

from evidence import Evidence, Key, body, lines
from journey import Process, Witness, Writ, stop_all, waited
from tamperings import tamperings
from tools import AicsTlog, GoXMod, OpenSsl, PyMerkle, SigstoreNode, SigstorePython, ran

faults = []


def expect(holds, what):
    print(f"  {'ok    ' if holds else 'FAILED'} {what}")
    if not holds:
        faults.append(what)


def claimed(writ, out, vkey, old, cosigned="", witness=""):
    """What is carried off of a log, and the proofs that it gives for one of its entries."""
    size = body(writ.checkpoint())[1]
    writ.run("audit", "export", "--range", f"0..{size - 1}", "--format", "bundle", "--out", str(out))
    note = (out / "checkpoint").read_text()
    rows = (out / "events.jsonl").read_bytes().splitlines()
    index = next(n for n, row in enumerate(rows) if b'"type":"credential.issue"' in row and b'"outcome":"ok"' in row)
    size = body(note)[1]
    proof = writ.json(f"/v1/audit/proof?seq={index}&size={size}")["proof"]
    consistency = writ.json(f"/v1/audit/consistency?old={body(old)[1]}&new={size}")["proof"]
    return Evidence(vkey, note, old, rows[index], index, proof, consistency, out, cosigned, witness)


def journey(program, peers, scratch):
    """A log with a witness, some hundred events of a dozen cases; another log; and a copy of the first from the middle of it."""
    sandbox = Process([program, "sandbox", "--port", "0", "--json"], scratch / "sandbox.log")
    writ, other = (Writ(program, scratch / name, sandbox.said) for name in ("work", "other"))
    witness = Witness(str(peers / "venv312/bin/aics-witness"), scratch / "witness")
    witness.add_log(writ.vkey)
    witness.serve()
    writ.names(witness, "any")
    writ.serve()
    writ.refund("case-1", 1_500)
    for n in range(40):
        writ.propose(f"case-{n % 12}", 2_000 + n)
    writ.stop()
    middle = scratch / "middle"
    shutil.copytree(writ.dir, middle)
    writ.serve()
    old = writ.checkpoint()
    for n in range(60):
        writ.propose(f"case-{n % 12}", 3_000 + n)
    writ.refund("case-2", 1_600, "other")

    def witnessed():
        note = writ.checkpoint()
        return len(lines(note)) > 1 and note

    cosigned = waited("the witness's cosignature of the latest head", witnessed)
    good = claimed(writ, scratch / "bundle", writ.vkey, old, cosigned, witness.vkey)
    other.serve()
    before = other.checkpoint()
    other.refund("case-1", 1_500)
    foreign = claimed(other, scratch / "other-bundle", other.vkey, before)
    other.stop()
    return writ, witness, middle, good, foreign


def at_the_witness(writ, witness, middle, good, stolen, stranger):
    """What is shown to the witness by whoever would have it forget. Gives how many it refused, and how many there were."""
    # Nobody shows it anything meanwhile.
    writ.stop()
    _, size, root = body(witness.knows(stolen.name))
    old_size = body(good.old)[1]
    alone = good.note.split("\n\n")[0]
    forged = base64.b64encode(b"x" * 32).decode()
    attempts = [
        ("rolled back: an older head", (old_size, [], good.old)),
        ("rolled back: an older head after the latest", (size, [], good.old)),
        ("forked: another root of the same size, with the stolen key", (size, [], stolen.sign(size, forged))),
        ("forked: a longer log with a forged proof, with the stolen key", (size, [forged] * 3, stolen.sign(size + 9, forged))),
        ("signed by a stranger", (size, [], stranger.sign(size, root))),
        ("a stranger under the key's id", (size, [], stranger.sign(size, root, stolen.id))),
        ("no signature", (size, [], alone + "\n\n")),
    ]
    caught = 0
    for name, shown in attempts:
        status, answer = witness.show(*shown)
        refused = status in ((422,) if name.startswith("forked") else (400, 403, 409)) and "\N{EM DASH}" not in answer
        caught += refused
        expect(refused, f"{name}: {status} {answer.strip()[:80]}")
    kept = witness.run("evidence")
    expect(forged in kept and stolen.name in kept, "the witness keeps what the stolen key signed, as evidence")
    # The same by the program itself: the directory is put back, head file and all; then it goes on another way.
    copies = [("the whole directory put back to an earlier day", "rolled_back", 0), ("a copy that goes on another way", "inconsistent", 120)]
    true = writ.dir
    for name, code, more in copies:
        writ.dir = true.parent / code
        shutil.copytree(middle, writ.dir)
        writ.serve()
        for n in range(more):
            writ.propose(f"case-{n % 12}", 4_000 + n)
        told = waited(name, lambda: [event for event in writ.told("log.witness_disagreed") if event["code"] == code])
        status, answer = writ.exchange(writ.propose("case-1", 900, "other"))
        stopped = status == 503 and json.loads(answer)["code"] == "audit_unavailable"
        caught += stopped
        expect(stopped, f"{name}: told as {told[0]['code']}, and no credential is issued")
        writ.stop()
    writ.dir = true
    writ.serve()
    writ.refund("case-3", 1_700, "other")
    waited("the witness's cosignature of the true log", lambda: len(lines(writ.checkpoint())) > 1)
    expect(True, "the true log goes on and is cosigned")
    return caught, len(attempts) + len(copies)


def by_the_page(writ, witness, peers, scratch):
    """The script of docs/evidence.md, as it stands there, on the bundle of a case: good, and changed. Gives how many it refused of how many."""
    page = (pathlib.Path(__file__).parents[2] / "docs/evidence.md").read_text()
    script = scratch / "check.py"
    script.write_text(page.split("```python\n")[1].split("```")[0])
    writ.run("audit", "export", "--case", "case-1", "--format", "bundle", "--out", str(scratch / "case"))
    # What is newest nobody has cosigned yet; the newest that somebody has goes along.
    tries = iter(range(100))

    def ahead_of_the_next_look():
        n = next(tries)
        writ.propose("case-4", 900 + n)
        writ.run("audit", "export", "--range", "0..0", "--format", "bundle", "--out", str(scratch / f"now-{n}"))
        return len(lines((scratch / f"now-{n}/checkpoint").read_text())) == 1 and scratch / f"now-{n}"

    now = waited("an export whose head nobody has cosigned yet", ahead_of_the_next_look)
    with_witness = ["--trust", str(writ.dir / "keys/log.pub"), "--witness", witness.vkey, "--max-age", "15m"]
    expect(bool(writ.run("audit", "verify", str(now), *with_witness, config=False)), "a head before it is, and goes along")
    path = os.pathsep.join([str(peers / "venv312/bin"), os.environ["PATH"]])

    def check(bundle, key):
        # A machine without this program: only what the packages brought is there.
        return ran([str(peers / "venv312/bin/python"), str(script), str(bundle), key], env={"PATH": path, "TMPDIR": str(scratch)})

    accepts, said = check(scratch / "case", writ.vkey)
    expect(accepts and "without a gap" in said, f"the script of docs/evidence.md accepts the case: {said[-120:]}")

    def rows(change):
        def apply(dir):
            lines = (dir / "events.jsonl").read_bytes().splitlines()
            (dir / "events.jsonl").write_bytes(b"".join(line + b"\n" for line in change(lines)))
        return apply

    stranger = Key(writ.vkey.split("+")[0], bytes(range(32)))

    def signed_anew(dir):
        _, size, root = body((dir / "checkpoint").read_text())
        (dir / "checkpoint").write_text(stranger.sign(size, root))

    changes = [
        ("an event edited", rows(lambda rows: [rows[0].replace(b'"minor":', b'"minor":1')] + rows[1:])),
        ("the first event left out", rows(lambda rows: rows[1:])),
        ("an event left out", rows(lambda rows: rows[:2] + rows[3:])),
        ("an event twice", rows(lambda rows: rows[:2] + rows[1:])),
        ("the head of a stranger", signed_anew),
    ]
    caught = 0
    for name, change in changes:
        copy = scratch / name.replace(" ", "-")
        shutil.copytree(scratch / "case", copy)
        change(copy)
        accepts, said = check(copy, writ.vkey)
        caught += not accepts
        expect(not accepts, f"it rejects: {name}: {said[-90:]}")
    return caught, len(changes)


def main():
    program, peers = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="writ-foreign-"))
    try:
        writ, witness, middle, good, foreign = journey(program, peers, scratch)
        stolen = Key.read(writ.dir / "keys/log.key")
        assert stolen.vkey == good.vkey
        stranger = Key(stolen.name, bytes(range(32)))
        print(f"the log {stolen.name}: {body(good.note)[1]} events, and {len(list(good.tiles.rglob('*')))} files carried off")
        tools = [
            AicsTlog(str(peers / "venv312/bin/aics-tlog"), scratch),
            SigstorePython(),
            PyMerkle(),
        ]
        # What the machine has not got, the script has named.
        if shutil.which("node") and (peers / "node_modules/@sigstore/verify").exists():
            tools.append(SigstoreNode(["node", str(pathlib.Path(__file__).parent / "sigstore.mjs"), str(peers / "node_modules")]))
        if shutil.which("openssl"):
            tools.append(OpenSsl(scratch))
        if (peers / "xmod").exists():
            tools.append(GoXMod([str(peers / "xmod")]))
        done = list(tamperings(good, stolen, stranger, foreign, scratch))
        accept, tables = 0, []
        for tool in tools:
            said = tool.judge([(question, good) for question in tool.asks])
            accept += all(accepts for accepts, _ in said)
            for question, (accepts, why) in zip(tool.asks, said):
                expect(accepts, f"{tool.name} accepts the log: {question} {'' if accepts else why}")
            jobs = [(n, question, evidence) for n, (_, asked, evidence) in enumerate(done) for question in asked.split() if question in tool.asks]
            said = tool.judge([(question, evidence) for _, question, evidence in jobs])
            table = {}
            for (n, question, _), (accepts, why) in zip(jobs, said):
                table[n] = not accepts
                if accepts:
                    expect(False, f"{tool.name} accepts: {done[n][0]} ({question})")
                elif not why:
                    expect(False, f"{tool.name} does not say why it rejects: {done[n][0]}")
            tables.append(table)
        print("what each can see, and rejects (x); what it is not asked is left blank")
        width = max(len(name) for name, _, _ in done)
        print("  " + " " * width + "  " + "  ".join(tool.name for tool in tools))
        for n, (name, _, _) in enumerate(done):
            marks = ["x" if table.get(n) else ("!" if n in table else " ") for table in tables]
            print(f"  {name:<{width}}  " + "  ".join(f"{mark:<{len(tool.name)}}" for mark, tool in zip(marks, tools)))
            expect_seen = sum(n in table for table in tables)
            if not expect_seen:
                expect(False, f"nobody is asked: {name}")
        print("what is shown to the witness")
        caught, shown = at_the_witness(writ, witness, middle, good, stolen, stranger)
        page = by_the_page(writ, witness, peers, scratch)
        accept += 1
        reject = sum(all(table.values()) for table in tables) + (caught == shown)
        for fault in faults:
            print(f"FAILED: {fault}")
        print(f"the script of docs/evidence.md: {page[0]} of {page[1]} changes of a case rejected")
        print(f"foreign verifiers: {accept} accept, {reject} reject each of {len(done) + shown} tamperings")
        return 0 if not faults and accept == reject == len(tools) + 1 else 1
    finally:
        stop_all()
        shutil.rmtree(scratch)


sys.exit(main())

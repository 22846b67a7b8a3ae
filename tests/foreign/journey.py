"""A log that real processes wrote: a sandbox, `writ serve` and a foreign witness, some hundred events of several cases, and what is carried off."""

import base64
import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE = 40
# Of two customers of the sandbox. The policy allows each two refunds and asks people about more.
CHARGES = {"one": "ch_3Rw4821blender", "other": "ch_3Rw4830chair"}


def waited(what, ask):
    """What `ask` gives once it gives anything."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = ask()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"it took longer than {PATIENCE} s: {what}")


class Process:
    """A process with its first line, and its log in a file."""

    running = []

    def __init__(self, command, log, env=None, line=True):
        self.log = log
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(log, "w"), env=env, text=True)
        Process.running.append(self)
        self.said = {}
        if line:
            first = self.child.stdout.readline()
            if not first:
                raise SystemExit(f"{command} did not start: {log.read_text()}")
            self.said = json.loads(first)

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(timeout=PATIENCE)
        self.child.stdout.close()
        Process.running.remove(self)


def stop_all():
    for process in list(Process.running):
        process.stop()


class Writ:
    """A working directory and what runs on it."""

    def __init__(self, program, dir, sandbox):
        self.program, self.dir = program, dir
        keys = {}
        for name in ("write_key", "read_key"):
            path = dir.parent / f"{dir.name}-{name}"
            path.write_text(sandbox[name] + "\n")
            keys[name] = str(path)
        made = self.run(
            "init", str(dir), "--listen", "127.0.0.1:0", "--stripe-url", sandbox["url"], "--stripe-key-file", keys["write_key"],
            "--stripe-read-key-file", keys["read_key"], config=False,
        )
        self.secrets = {client["id"]: client["secret"] for client in made["clients"]}
        self.server = None

    def run(self, *arguments, config=True):
        more = ["--config", str(self.dir / "writ.toml")] if config else []
        env = {name: value for name, value in os.environ.items() if name != "WRIT_CONFIG"}
        done = subprocess.run([self.program, *arguments, *more, "--json"], capture_output=True, text=True, env=env)
        if done.returncode != 0:
            raise SystemExit(f"writ {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def serve(self):
        command = [self.program, "serve", "--config", str(self.dir / "writ.toml"), "--json"]
        self.server = Process(command, self.dir.parent / f"{self.dir.name}.log")

    def stop(self):
        self.server.stop()

    def call(self, client, method, path, body=None, kind="application/json", bearer=None):
        basic = base64.b64encode(f"{client}:{self.secrets[client]}".encode()).decode()
        headers = {"authorization": f"Bearer {bearer}" if bearer else f"Basic {basic}", "content-type": kind}
        request = urllib.request.Request(self.server.said["url"] + path, method=method, headers=headers, data=body and body.encode())
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def propose(self, case, cents, customer="one"):
        parameters = {"charge": CHARGES[customer], "amount": cents, "currency": "usd"}
        draft = {"operation": "refund.create", "case_id": case, "reason_code": "damaged", "parameters": parameters}
        status, answer = self.call("support-agent", "POST", "/v1/drafts", json.dumps(draft))
        assert status == 201, answer
        return json.loads(answer)["id"]

    def exchange(self, draft):
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": draft,
            "subject_token_type": "urn:writ:token-type:draft",
        }
        return self.call("support-agent", "POST", "/oauth2/token", urllib.parse.urlencode(form), "application/x-www-form-urlencoded")

    def refund(self, case, cents, customer="one"):
        """A refund that the policy allows, executed."""
        draft = self.propose(case, cents, customer)

        def issued():
            status, answer = self.exchange(draft)
            assert status in (200, 503), answer
            return status == 200 and json.loads(answer)["access_token"]

        token = waited("a credential, once a witness has cosigned the log", issued)
        status, answer = self.call("support-agent", "POST", "/v1/executions", json.dumps({"draft_id": draft}), bearer=token)
        assert status < 300, answer

    def checkpoint(self):
        return self.call("security", "GET", "/v1/audit/checkpoint")[1]

    def json(self, path):
        status, answer = self.call("security", "GET", path)
        assert status == 200, answer
        return json.loads(answer)

    def told(self, kind):
        """The events of this type, read past the server."""
        database = sqlite3.connect(f"file:{self.dir / 'data/writ.db'}?mode=ro", uri=True)
        try:
            found = database.execute("SELECT body FROM event WHERE type = ? ORDER BY seq", [kind]).fetchall()
        finally:
            database.close()
        return [json.loads(body) for (body,) in found]

    def names(self, witness, require):
        """Has the configuration name a witness."""
        path = self.dir / "writ.toml"
        place = "[policy]\n"
        section = f'[[audit.witness]]\nurl = "{witness.url}"\nvkey = "{witness.vkey}"\n\n'
        text = path.read_text()
        assert text.count(place) == 1 and text.count("[audit]\n") == 1
        text = text.replace("[audit]\n", f'[audit]\nrequire = "{require}"\n').replace(place, section + place)
        path.write_text(text)

    @property
    def vkey(self):
        return next(line.split(" ")[1] for line in (self.dir / "keys/log.pub").read_text().splitlines() if line.startswith("log "))


class Witness:
    """aics-witness, at a free port of 127.0.0.1."""

    def __init__(self, program, dir):
        self.program = program
        dir.mkdir()
        self.env = dict(os.environ, AICS_WITNESS_CONFIG=str(dir / "witness.json"))
        self.vkey = self.run("init", "--name", "witness.example/w1", "--listen", "127.0.0.1:0").strip()
        self.dir = dir

    def run(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, env=self.env)
        if done.returncode != 0:
            raise SystemExit(f"aics-witness {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def add_log(self, vkey):
        self.run("add-log", "--origin", vkey.split("+")[0], "--vkey", vkey)

    def serve(self):
        log = self.dir / "log"
        self.process = Process([self.program, "serve"], log, env=self.env, line=False)
        port = waited("the witness's port", lambda: re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text()))
        self.url = f"http://127.0.0.1:{port.group(1)}"

    def knows(self, origin):
        """The head that it has cosigned last."""
        path = hashlib.sha256(origin.encode()).hexdigest()
        with urllib.request.urlopen(f"{self.url}/{path}/checkpoint") as answer:
            return answer.read().decode()

    def show(self, old, proof, note):
        """The answer to a head."""
        body = f"old {old}\n" + "".join(line + "\n" for line in proof) + "\n" + note
        request = urllib.request.Request(self.url + "/add-checkpoint", method="POST", data=body.encode())
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


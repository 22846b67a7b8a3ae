// Checks a log with @sigstore/verify. Reads a list of jobs as JSON, answers a list of errors; an empty one is a good answer. The functions are
// the package's own and not its public face, so its version is pinned.
import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const dist = join(process.argv[2], "@sigstore/verify/dist/tlog");
const { verifyCheckpoint } = require(join(dist, "checkpoint.js"));
const { verifyMerkleInclusion } = require(join(dist, "merkle.js"));

function run(job) {
  const [name, id, key] = job.vkey.split(/\+(.*?)\+(.*)/s);
  const raw = Buffer.from(key, "base64").subarray(1);
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
  const log = {
    logID: Buffer.from(id, "hex"),
    baseURL: name,
    publicKey: createPublicKey({ key: der, format: "der", type: "spki" }),
  };
  const entry = {
    canonicalizedBody: Buffer.from(job.leaf ?? "", "base64"),
    inclusionProof: {
      logIndex: String(job.index ?? 0),
      hashes: (job.proof ?? []).map((hash) => Buffer.from(hash, "base64")),
      checkpoint: { envelope: job.note },
    },
  };
  const checkpoint = verifyCheckpoint(entry, [log]);
  if (checkpoint.origin !== name) throw new Error("a checkpoint of another log");
  if (job.do === "inclusion") verifyMerkleInclusion(entry, checkpoint);
}

const answers = JSON.parse(readFileSync(0, "utf8")).map((job) => {
  try {
    run(job);
    return "";
  } catch (error) {
    return String(error.message || error);
  }
});
process.stdout.write(JSON.stringify(answers));

// Checks drafts.json with an RFC 8785 implementation from the npm registry and nothing of this program.
//
// Usage: node --import ./tests/peers/resolve.mjs tests/vectors/check.mjs [FILE]. Ends with a line that counts; exit status 1 if a check failed.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';

import canonicalize from 'canonicalize';

const file = process.argv[2] ?? fileURLToPath(new URL('drafts.json', import.meta.url));
const document = JSON.parse(readFileSync(file, 'utf8'));

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
const tagged = (tag, data) => sha256(Buffer.from(tag), Buffer.of(0), data);

// The first 16 bytes under the key's tag, as a UUID of version 8 and the RFC 9562 variant.
function keyOf(digest) {
  const raw = tagged(document.key_tag, digest).subarray(0, 16);
  raw[6] = (raw[6] & 0x0f) | 0x80;
  raw[8] = (raw[8] & 0x3f) | 0x80;
  return raw.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function wireBody(request, key) {
  const body = Buffer.from(request.body);
  const length = document.placeholder.length;
  for (const offset of request.key_offsets ?? []) {
    if (body.toString('utf8', offset, offset + length) !== document.placeholder) return null;
    body.write(key, offset);
  }
  return body;
}

// What is wrong with a vector; empty if nothing is.
function faults(vector) {
  const found = [];
  const canonical = Buffer.from(vector.canonical);
  if (canonicalize(vector.input) !== vector.canonical) found.push('the canonical form of the input is another one');
  const digest = tagged(document.draft_tag, canonical);
  if (digest.toString('base64url') !== vector.draft_hash) found.push('the canonical bytes hash to something else');
  if (keyOf(digest) !== vector.idempotency_key) found.push('another key follows from the hash');
  const { request } = vector.input;
  if (sha256(Buffer.from(request.body)).toString('base64url') !== request.body_sha256) found.push('the body hashes to something else');
  if (!wireBody(request, vector.idempotency_key)?.equals(Buffer.from(vector.wire_body))) found.push('the body on the wire is another one');
  return found;
}

// Copies of a vector that are each wrong in one place.
function spoiled(vector) {
  const text = vector.canonical;
  const middle = Math.floor(text.length / 2);
  const other = text[middle] === 'x' ? 'y' : 'x';
  const first = vector.draft_hash[0] === 'A' ? 'B' : 'A';
  return {
    'a changed byte': { ...vector, canonical: text.slice(0, middle) + other + text.slice(middle + 1) },
    'a byte too many': { ...vector, canonical: `${text} ` },
    'another salt': { ...vector, input: { ...vector.input, salt: 'AAAAAAAAAAAAAAAAAAAAAA' } },
    'another hash': { ...vector, draft_hash: first + vector.draft_hash.slice(1) },
    'another key': { ...vector, idempotency_key: '00000000-0000-8000-8000-000000000000' },
    'another body on the wire': { ...vector, wire_body: `${vector.wire_body}&` },
  };
}

let passed = 0;
let failed = 0;
function check(name, fine, why) {
  if (fine) {
    passed += 1;
  } else {
    failed += 1;
    console.log(`${basename(file)}: ${name}: ${why}`);
  }
}

check('the file', document.vectors.length >= 12, 'fewer than 12 vectors');
for (const vector of document.vectors) {
  const found = faults(vector);
  check(vector.name, found.length === 0, found.join('; '));
  for (const [what, copy] of Object.entries(spoiled(vector))) {
    check(vector.name, faults(copy).length > 0, `${what} was not noticed`);
  }
}
console.log(`vectors in Node: ${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

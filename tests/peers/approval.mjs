// Approval records with jose.
//
// approval.mjs check VECTORS   judges tests/vectors/approval.json: jose for the signature, the rules of the record written out here
// approval.mjs sign REQUEST    signs the claims in the file, once for each key and algorithm name in it, and prints one record a line
import { readFileSync } from 'node:fs';
import { CompactSign, base64url, compactVerify, importJWK, importPKCS8 } from 'jose';

const ALGORITHMS = { ES256: ['ES256'], Ed25519: ['EdDSA', 'Ed25519'] };
const APR = ['v', 'decision', 'draft_id', 'draft_hash', 'request_nonce', 'verdict_id', 'policy', 'by', 'reason', 'execute_by'];
const text = new TextDecoder();

function require(condition, why) {
  if (!condition) throw new Error(why);
}

function decode(part) {
  const raw = base64url.decode(part);
  require(base64url.encode(raw) === part, 'not canonical base64url');
  return raw;
}

const seconds = (time) => new Date(time).getTime() / 1000;

function publicKey(key, alg) {
  const raw = decode(key.public);
  const jwk =
    key.kind === 'ES256'
      ? { kty: 'EC', crv: 'P-256', x: base64url.encode(raw.slice(1, 33)), y: base64url.encode(raw.slice(33)) }
      : { kty: 'OKP', crv: 'Ed25519', x: base64url.encode(raw) };
  return importJWK(jwk, alg);
}

async function verify(record, key, audience, now) {
  const parts = record.split('.');
  require(parts.length === 3, 'not three parts');
  const header = JSON.parse(text.decode(decode(parts[0])));
  decode(parts[2]);
  require(Object.keys(header).sort().join() === 'alg,kid,typ', "the header's members");
  require(header.typ === 'approval+jwt', 'typ');
  require(header.kid === key.kid, 'kid');
  require(ALGORITHMS[key.kind].includes(header.alg), 'alg');
  const { payload } = await compactVerify(record, await publicKey(key, header.alg), { algorithms: ALGORITHMS[key.kind] });
  const claims = JSON.parse(text.decode(payload));
  const { apr } = claims;
  require(seconds(key.not_before) <= Math.min(now, claims.iat + 5), "the key's first moment");
  require(key.not_after === null || Math.max(now, claims.iat) < seconds(key.not_after), "the key's last moment");
  require(key.revoked_at === null || now < seconds(key.revoked_at), 'revoked');
  require(claims.aud === audience, 'aud');
  require(claims.iss === key.issuer && claims.sub === key.approver && apr.by.id === key.approver, 'iss, sub, by');
  require(claims.iat - 5 <= now && claims.nbf - 5 <= now && now < claims.exp, 'times');
  require(claims.exp > claims.iat && claims.exp - claims.iat <= 3600 && claims.nbf < claims.exp, 'lifetime');
  require(Object.keys(apr).every((name) => APR.includes(name)) && apr.v === 1, 'apr');
  require(decode(apr.request_nonce).length === 16, 'nonce');
  require(['approve', 'deny'].includes(apr.decision), 'decision');
  require(apr.decision === 'approve' || (apr.reason ?? '').trim() !== '', 'reason');
}

async function check(path) {
  const vectors = JSON.parse(readFileSync(path, 'utf8'));
  const wrong = [];
  for (const entry of vectors.cases) {
    const key = vectors.keys.find((k) => k.kid === entry.key);
    const answer = await verify(entry.record, key, vectors.audience, seconds(entry.at)).then(
      () => 'accepted',
      (error) => {
        if (process.argv.includes('-v')) console.log(`  ${entry.name}: ${error}`);
        return 'refused'; // every error is a refusal
      },
    );
    if ((answer === 'accepted') !== (entry.expected === 'accepted')) wrong.push(entry.name);
  }
  console.log(`jose: ${vectors.cases.length} records, ${wrong.length} judged otherwise than written${wrong.length ? ': ' : ''}${wrong.join(', ')}`);
  return wrong.length ? 1 : 0;
}

async function sign(path) {
  const request = JSON.parse(readFileSync(path, 'utf8'));
  const payload = new TextEncoder().encode(JSON.stringify(request.claims));
  for (const { kid, kind, pem } of request.keys) {
    for (const alg of ALGORITHMS[kind]) {
      const header = { alg, kid, typ: 'approval+jwt' };
      console.log(await new CompactSign(payload).setProtectedHeader(header).sign(await importPKCS8(pem, alg)));
    }
  }
  return 0;
}

process.exit(await { check, sign }[process.argv[2]](process.argv[3]));

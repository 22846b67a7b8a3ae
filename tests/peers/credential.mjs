// Judges tests/vectors/credential.json with biscuit-wasm: the key of the token's own id, the authorizer of the case, nothing else.
import { readFileSync } from 'node:fs';
import { AuthorizerBuilder, Biscuit, KeyPair, PublicKey, SignatureAlgorithm } from '@biscuit-auth/biscuit-wasm';

const limits = { max_facts: 1000, max_iterations: 100, max_time_micro: 5_000_000 };
const vectors = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const nobody = new KeyPair(SignatureAlgorithm.Ed25519);

function provider(at) {
  return (kid) => {
    const key = vectors.keys.find((k) => k.key_id === kid && new Date(k.not_before) <= at && at < new Date(k.expires_at));
    // A provider that throws makes this library trap; a key that signed nothing is refused in good order.
    if (!key) return nobody.getPublicKey();
    return PublicKey.fromString(key.key_bytes, SignatureAlgorithm.Ed25519);
  };
}

function judge(entry) {
  try {
    const token = Biscuit.fromBase64WithProvider(entry.token, provider(new Date(entry.at)));
    const builder = new AuthorizerBuilder();
    builder.addCode(entry.authorizer);
    return builder.buildAuthenticated(token).authorizeWithLimits(limits) === 0 ? 'allows' : 'refuses';
  } catch (error) {
    if (process.argv.includes('-v')) console.log(`  ${entry.name}:`, error);
    return 'refuses'; // every error is a refusal
  }
}

const wrong = vectors.cases.filter((entry) => judge(entry) !== entry.stock_library).map((entry) => entry.name);
// The first case once more: the refusals are not those of a library that has broken on the way.
if (judge(vectors.cases[0]) !== 'allows') wrong.push('the first case at the end');
console.log(`biscuit-wasm: ${vectors.cases.length} credentials, ${wrong.length} judged otherwise than written${wrong.length ? ': ' : ''}${wrong.join(', ')}`);
process.exit(wrong.length ? 1 : 0);

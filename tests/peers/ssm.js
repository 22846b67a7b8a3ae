// Starts stripe-stateful-mock on 127.0.0.1 only; its own command listens on every interface.
//
// Usage: node ssm.js [PORT]. Prints the URL once it listens; ends when its standard input is closed.
// It honours idempotency keys: a repetition is answered from memory.
const path = require('node:path');
const { createRequire } = require('node:module');

const peers = createRequire(path.join(__dirname, '../../.peers/any.js'));
peers('loglevel').setLevel('warn');
const server = peers('stripe-stateful-mock')
  .createExpressApp()
  .listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));

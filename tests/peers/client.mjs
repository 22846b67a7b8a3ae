// The official Node client of the payment provider, against a server given by its URL.
//
// Usage: client.mjs URL charge AMOUNT CURRENCY SOURCE prints the charge; SOURCE is a token, or `card` where there are no tokens
//        client.mjs URL refund CHARGE AMOUNT KEY    prints the refund, or {"error": {"status", "code", "type"}}
//        client.mjs URL show CHARGE                 prints the charge and its refunds
//        client.mjs URL sign SECRET SECONDS BODY    prints {"header"}: the signature of an event
import Stripe from 'stripe';

const [address, verb, ...rest] = process.argv.slice(2);
const { hostname, port } = new URL(address);
const stripe = new Stripe(process.env.PEER_KEY ?? 'sk_test_peer', { host: hostname, port, protocol: 'http', maxNetworkRetries: 0, telemetry: false });

const verbs = {
  charge: async (amount, currency, token) => {
    const card = { number: '4242424242424242', exp_month: 12, exp_year: 2030, cvc: '123' };
    const source = token === 'card' ? (await stripe.paymentMethods.create({ type: 'card', card })).id : token;
    return stripe.charges.create({ amount: Number(amount), currency, source });
  },
  refund: (charge, amount, idempotencyKey) =>
    stripe.refunds.create({ charge, amount: Number(amount) }, { idempotencyKey }).catch((error) => {
      if (!(error instanceof Stripe.errors.StripeError)) throw error;
      return { error: { status: error.statusCode, code: error.code, type: error.type } };
    }),
  sign: (secret, seconds, payload) => ({
    header: stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp: Number(seconds) }),
  }),
  show: async (charge) => ({
    charge: await stripe.charges.retrieve(charge),
    refunds: (await stripe.refunds.list({ charge, limit: 100 })).data,
  }),
};
console.log(JSON.stringify(await verbs[verb](...rest)));

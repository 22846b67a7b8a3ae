"""The official Python client of the payment provider, against a server given by its URL.

Usage: client.py URL charge AMOUNT CURRENCY SOURCE prints the charge; SOURCE is a token, or `card` where there are no tokens
       client.py URL refund CHARGE AMOUNT KEY    prints the refund, or {"error": {"status", "code", "type"}}
       client.py URL show CHARGE                 prints the charge and its refunds
       client.py URL verify SECRET HEADER BODY       prints {"verified": whether the signature of an event fits}
"""

import json
import os
import sys

import stripe


def main(url: str, verb: str, *rest: str) -> dict:
    key = os.environ.get("PEER_KEY", "sk_test_peer")
    # The client's own setting does not reach every call, so the module's is set as well.
    stripe.max_network_retries = 0
    client = stripe.StripeClient(key, base_addresses={"api": url}, max_network_retries=0)
    match (verb, *rest):
        case "charge", amount, currency, source:
            if source == "card":
                card = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2030, "cvc": "123"}
                source = client.v1.payment_methods.create(params={"type": "card", "card": card}).id
            return client.v1.charges.create(params={"amount": int(amount), "currency": currency, "source": source}).to_dict()
        case "refund", charge, amount, idempotency_key:
            try:
                refund = client.v1.refunds.create(
                    params={"charge": charge, "amount": int(amount)}, options={"idempotency_key": idempotency_key}
                )
            except stripe.StripeError as error:
                # The client drops the code of a status it does not know, 409 for one; the body still has it.
                code = (error.json_body or {}).get("error", {}).get("code")
                return {"error": {"status": error.http_status, "code": code, "type": type(error).__name__}}
            return refund.to_dict()
        case "verify", secret, header, body:
            try:
                stripe.WebhookSignature.verify_header(body, header, secret, tolerance=None)
            except stripe.SignatureVerificationError:
                return {"verified": False}
            return {"verified": True}
        case "show", charge:
            refunds = client.v1.refunds.list(params={"charge": charge, "limit": 100})
            return {"charge": client.v1.charges.retrieve(charge).to_dict(), "refunds": [refund.to_dict() for refund in refunds.data]}
    raise SystemExit(__doc__)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))

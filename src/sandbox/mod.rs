//! The demo's payments and orders backend: a real HTTP server on loopback, Stripe-shaped, with scripted faults.

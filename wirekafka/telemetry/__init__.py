"""Client telemetry (KIP-714): subscriptions, and the instances of clients that push."""

"""Client telemetry (KIP-714): what clients are to push, and what is known of those that do."""

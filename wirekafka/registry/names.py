"""The names that a registry has at the brokers."""

from __future__ import annotations

TOPIC = "_schemas"
GROUP = "schema-registry"
CLIENT_ID = "wirekafka-schema-registry"
"""Of all its connections; connections of its users have a suffix."""
TRANSACTIONAL_ID = f"wirekafka-{GROUP}"

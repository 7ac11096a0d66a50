"""The `match` option of client metrics: which clients a subscription is for (KIP-714).

Kafka matches by Java's regular expressions. Here it is RE2, whose time is linear: features that RE2
lacks (lookaround, references to groups, intersections of classes) are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wirekafka.errors import Error, KafkaError
from wirekafka.regex import InvalidRegex, Regex

INSTANCE_ID = "client_instance_id"
CLIENT_ID = "client_id"
SOFTWARE_NAME = "client_software_name"
SOFTWARE_VERSION = "client_software_version"
SOURCE_ADDRESS = "client_source_address"
SOURCE_PORT = "client_source_port"
SELECTORS = frozenset(
    (INSTANCE_ID, CLIENT_ID, SOFTWARE_NAME, SOFTWARE_VERSION, SOURCE_ADDRESS, SOURCE_PORT)
)
"""The attributes of a client that can be matched."""


class ClientMatch:
    """The expressions of one subscription, by selector; all must match. None matches everyone."""

    def __init__(self, pairs: Sequence[str]):
        """`pairs` are `selector=expression`. Raises KafkaError(INVALID_CONFIG)."""
        self._expressions: dict[str, Regex] = {}
        for pair in pairs:
            selector, equals, text = pair.partition("=")
            selector, text = selector.strip(), text.strip()
            # Kafka splits at each "=".
            if not equals or not text or "=" in text or selector not in SELECTORS:
                raise _illegal(pair)
            self._expressions[selector] = _compiled(text, pair)

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Whether the attributes of a client, by selector, match as a whole."""
        for selector, expression in self._expressions.items():
            value = attributes[selector]
            if value is None or not expression.matches(value):
                return False
        return True


def _compiled(text: str, pair: str) -> Regex:
    if "&&" in text:  # In Java an intersection of classes, in RE2 two characters.
        raise _illegal(pair)
    try:
        return Regex(text)
    except InvalidRegex:
        raise _illegal(pair) from None


def _illegal(pair: str) -> KafkaError:
    return KafkaError(Error.INVALID_CONFIG, f"Illegal client matching pattern: {pair}")

"""The limits on connections of single hosts (`max.connections.per.ip.overrides`)."""

import re
from contextlib import suppress

from wirekafka.config.address import java_text
from wirekafka.config.option import INT_MAX, ConfigError

_OPTION = "max.connections.per.ip.overrides"
_HOST = re.compile(r"[A-Za-z0-9_.-]*|[0-9A-Fa-f:.]+(%\w+)?")
_COUNT = re.compile(r"[+-]?\d+")


def connections_of_hosts(text: str) -> dict[str, int]:
    """Read HOST:COUNT,HOST:COUNT; IP addresses are the keys as Java writes them.

    Raises ConfigError, worded as by Kafka.
    """
    found = {}
    for pair in _pairs(text):
        host, colon, count = (part.strip() for part in pair.rpartition(":"))
        if not colon or not _COUNT.fullmatch(count) or not -INT_MAX - 2 < int(count) <= INT_MAX:
            reason = f"Error parsing configuration property '{_OPTION}': {pair}"
            raise ConfigError(_OPTION, text, reason, reason)
        if not _HOST.fullmatch(host):
            raise ConfigError(_OPTION, text, f"{_OPTION} contains invalid addresses : {host}")
        with suppress(ValueError):
            host = java_text(host)
        found[host] = int(count)
    return found


def _pairs(text: str) -> list[str]:
    pairs = re.split(r"\s*,\s*", text.strip())
    # Java drops empty words at the end of a split text, but no others.
    while pairs and not pairs[-1]:
        pairs.pop()
    return pairs

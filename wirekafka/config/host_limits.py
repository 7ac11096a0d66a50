"""The limits on connections of single hosts (`max.connections.per.ip.overrides`)."""

from contextlib import suppress

from wirekafka.config.address import java_text
from wirekafka.config.option import ConfigError

_OPTION = "max.connections.per.ip.overrides"


def connections_of_hosts(text: str) -> dict[str, int]:
    """Read HOST:COUNT,HOST:COUNT; IP addresses are the keys as Java writes them.

    Raises ConfigError, worded as by Kafka.
    """
    found = {}
    for pair in filter(None, text.split(",")):
        host, _, count = (part.strip() for part in pair.rpartition(":"))
        if not host or not count.isdecimal():
            reason = f"Error parsing configuration property '{_OPTION}': {pair}"
            raise ConfigError(_OPTION, text, reason, reason)
        with suppress(ValueError):
            host = java_text(host)
        found[host] = int(count)
    return found

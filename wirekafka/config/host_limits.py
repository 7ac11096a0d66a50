"""The limits on connections of single hosts (`max.connections.per.ip.overrides`)."""

from wirekafka.config.option import ConfigError

_OPTION = "max.connections.per.ip.overrides"


def connections_of_hosts(text: str) -> dict[str, int]:
    """Read HOST:COUNT,HOST:COUNT. Raises ConfigError, worded as by Kafka."""
    found = {}
    for pair in filter(None, text.split(",")):
        host, _, count = (part.strip() for part in pair.rpartition(":"))
        if not host or not count.isdecimal():
            reason = f"Error parsing configuration property '{_OPTION}': {pair}"
            raise ConfigError(_OPTION, text, reason, reason)
        found[host] = int(count)
    return found

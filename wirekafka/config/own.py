"""Settings of wirekafka's own, which Kafka does not have: they are in no list of its options."""

from __future__ import annotations

from wirekafka.config.address import Address
from wirekafka.config.option import ConfigError
from wirekafka.config.sources import Sources

METRICS_LISTENER = "wirekafka.metrics.listener"
OWN = {
    METRICS_LISTENER: "Where metrics and health are served over HTTP, as PORT on 127.0.0.1 or "
    "HOST:PORT; not set, they are not served. As `serve --metrics`."
}
"""What each setting means, by name. They are static: set by file, environment or command line."""

_LOOPBACK = "127.0.0.1"


def metrics_listener(sources: Sources) -> Address | None:
    """The address of the metrics listener; None if there is none. Raises ConfigError."""
    text = (sources.text(METRICS_LISTENER) or "").strip()
    if not text:
        return None
    try:
        return Address.parse(f"{_LOOPBACK}:{text}" if text.isascii() and text.isdigit() else text)
    except ValueError:
        raise ConfigError(METRICS_LISTENER, text, "expected PORT or HOST:PORT") from None

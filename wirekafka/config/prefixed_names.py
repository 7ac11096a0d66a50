"""Names of options of one listener, or of one SASL mechanism of a listener.

`listener.name.<listener>.<option>` overrides an option for a listener, and
`listener.name.<listener>.<mechanism>.<option>` for a SASL mechanism of that listener. Listener and
mechanism are in lower case; Kafka ignores other spellings.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from wirekafka.config.option import Option, Update
from wirekafka.config.options import BROKER, THROTTLES

logger = logging.getLogger(__name__)

PREFIX = "listener.name."

_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""The options that Kafka recognizes behind any prefix, as options of a mechanism."""

CLUSTER_LEVEL = frozenset(
    ("max.connections", "max.connection.creation.rate", "num.network.threads")
)
"""The options of a listener that can be set for all brokers at once (KIP-402, KIP-612)."""

STORES = frozenset(
    name for name in BROKER if name.startswith(("ssl.keystore.", "ssl.key.", "ssl.truststore."))
)
"""Keys and certificates: all that a running listener reads again, and per listener only."""


class Prefixed(NamedTuple):
    """A name split at the listener: `listener.name.<listener>.<rest>`."""

    listener: str
    rest: str


def split(name: str) -> Prefixed | None:
    """Split a name that has a listener prefix; None for any other name."""
    if not name.startswith(PREFIX):
        return None
    listener, dot, rest = name.removeprefix(PREFIX).partition(".")
    return Prefixed(listener, rest) if dot else None


def prefixes(listener: str, mechanism: str | None = None) -> list[str]:
    """The prefixes of a listener's options, the weakest first."""
    found = [f"{PREFIX}{listener.lower()}."]
    if mechanism is not None:
        found.append(f"{found[0]}{mechanism.lower()}.")
    return found


def jaas_option(listener: str, mechanism: str) -> str:
    """The name of the option that has the login module of a mechanism of a listener."""
    return f"{prefixes(listener, mechanism)[-1]}sasl.jaas.config"


def overridden(name: str) -> Option[Any] | None:
    """The option that a name with a listener prefix overrides; None if there is none."""
    parts = split(name)
    if parts is None or parts.listener != parts.listener.lower():
        return None
    option = BROKER.get(parts.rest)
    if option is None:
        mechanism, _, rest = parts.rest.partition(".")
        option = BROKER.get(rest) if mechanism == mechanism.lower() else None
    return option


def described(name: str) -> Option[Any] | None:
    """The option whose type and synonyms Kafka reports for a name, prefixed or not.

    Kafka does not recognize every option of a mechanism: it reports other options as unknown, and
    withholds their values.
    """
    option = BROKER.get(name) or THROTTLES.get(name)
    parts = split(name)
    if option is not None or parts is None:
        return option
    for each in _PER_MECHANISM:
        if parts.rest.endswith(each):
            return BROKER[each]
    return BROKER.get(parts.rest)


def is_per_broker(name: str) -> bool:
    """Whether a dynamic option can be set for single brokers only."""
    parts = split(name)
    if parts is not None:
        return parts.rest not in CLUSTER_LEVEL
    return name in BROKER and BROKER[name].update is Update.PER_BROKER


def applicable(values: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The dynamic settings, of one broker or of all, that may change while a node runs.

    A controller stores the settings that clients send to it directly without a broker's checks
    (KIP-919). As in Kafka, a node ignores settings that it would itself have refused.
    """
    ignored = [
        name
        for name in values
        if (name in BROKER and BROKER[name].update is Update.READ_ONLY)
        or (not per_broker and is_per_broker(name))
    ]
    if not ignored:
        return dict(values)
    logger.error("Dynamic settings that cannot change so are ignored: %s", ", ".join(ignored))
    return {name: text for name, text in values.items() if name not in ignored}

"""The broker's bounds for options of groups: `group.<kind>.min.*` and `group.<kind>.max.*`.

A new value out of bounds is refused. A stored value can be out of bounds after a restart with other
bounds; the nearest bound then takes effect, as in Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from wirekafka.config.option import Option
from wirekafka.config.options import BROKER

if TYPE_CHECKING:
    from wirekafka.config.broker_config import BrokerConfig

_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
    "streams.task.offset.interval.ms",
    "streams.num.warmup.replicas",
)
"""The group options that have bounds, in the order in which Kafka checks them."""


class Bounds(NamedTuple):
    """The broker options that are the lower and the upper bound; None for no bound."""

    low: Option[Any] | None
    high: Option[Any] | None


def _bounds_of(name: str) -> Bounds:
    kind, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")
    return Bounds(*(BROKER.get(f"group.{kind}.{bound}.{rest}") for bound in ("min", "max")))


BOUNDS = {name: _bounds_of(name) for name in _BOUNDED}
"""The bounds of each group option that has any."""
BOUNDING = frozenset(
    option.name for bounds in BOUNDS.values() for option in bounds if option is not None
)
"""The names of the broker options that are bounds."""


def violations(broker: BrokerConfig, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield Kafka's error message for each of these parsed values that is out of bounds."""
    for name, (low, high) in BOUNDS.items():
        if name not in values:
            continue
        value = values[name]
        least = None if low is None else broker.value(low)
        most = None if high is None else broker.value(high)
        if (least is None or value >= least) and (most is None or value <= most):
            continue
        if least is None:
            yield f"{name} must be less than or equal to {most}"
        elif most is None:
            yield f"{name} must be greater than or equal to {least}"
        else:
            yield f"{name} must be in the range {least} to {most} inclusive."


def clamped(broker: BrokerConfig, stored: Mapping[str, str]) -> Mapping[str, str]:
    """Return a group's stored options, with values out of bounds replaced by the nearest bound."""
    if not stored:
        return stored
    effective: dict[str, str] | None = None
    for name, text in stored.items():
        bounds = BOUNDS.get(name)
        if bounds is None:
            continue
        value = found = int(text)
        if bounds.low is not None:
            value = max(value, broker.value(bounds.low))
        if bounds.high is not None:
            value = min(value, broker.value(bounds.high))
        if value != found:
            effective = effective or dict(stored)
            effective[name] = str(value)
    return stored if effective is None else effective

"""A broker as a Python object, for tests."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wirekafka.testing.admin import Group, Member
    from wirekafka.testing.broker import Broker, Clock, Snapshot
    from wirekafka.testing.faults import Match, Rule, State
    from wirekafka.testing.records import Record, StoredRecord
    from wirekafka.testing.traffic import Exchange, Traffic

__all__ = [
    "Broker", "Clock", "Exchange", "Group", "Match", "Member", "Record", "Rule", "Snapshot",
    "State", "StoredRecord", "Traffic",
]

_MODULES = {
    "Broker": "broker", "Clock": "broker", "Exchange": "traffic", "Group": "admin",
    "Match": "faults", "Member": "admin", "Record": "records", "Rule": "faults",
    "Snapshot": "broker", "State": "faults", "StoredRecord": "records", "Traffic": "traffic",
}


def __getattr__(name: str) -> Any:
    # The pytest plugin lies in this package, and most runs of pytest start no broker.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

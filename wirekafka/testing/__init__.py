"""Kafka brokers as Python objects for tests: faults, recorded traffic, a clock, pytest fixtures.

The names below are public and documented in docs/reference/testing.md; `wirekafka.Broker` is the
entry point.
Belongs here: starting and stopping a real node inside a test, fault rules, the recording of
requests, a clock that tests control, the pytest plugin, and the HTTP control port for tests in
other languages. Does not belong here: any second implementation of broker behaviour. Faults and
recording are hooks around the handlers of the production pipeline.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wirekafka.testing.acls import Allow, Deny
    from wirekafka.testing.broker import Broker, Snapshot
    from wirekafka.testing.cluster.cluster import Cluster
    from wirekafka.testing.cluster.cluster_broker import ClusterBroker
    from wirekafka.testing.controlled_clock import Clock
    from wirekafka.testing.faults import Match, Rule, State
    from wirekafka.testing.groups import Group, Member
    from wirekafka.testing.hooks.traffic import Exchange, Traffic
    from wirekafka.testing.records import Record, StoredRecord
    from wirekafka.testing.registry.schemas import DecodedRecord, Schemas
    from wirekafka.testing.share_locks import InFlightRecord

__all__ = [
    "Allow",
    "Broker",
    "Clock",
    "Cluster",
    "ClusterBroker",
    "DecodedRecord",
    "Deny",
    "Exchange",
    "Group",
    "InFlightRecord",
    "Match",
    "Member",
    "Record",
    "Rule",
    "Schemas",
    "Snapshot",
    "State",
    "StoredRecord",
    "Traffic",
]

_MODULES = {
    "Allow": "acls",
    "Broker": "broker",
    "Clock": "controlled_clock",
    "Cluster": "cluster.cluster",
    "ClusterBroker": "cluster.cluster_broker",
    "DecodedRecord": "registry.schemas",
    "Deny": "acls",
    "Exchange": "hooks.traffic",
    "Group": "groups",
    "InFlightRecord": "share_locks",
    "Match": "faults",
    "Member": "groups",
    "Record": "records",
    "Rule": "faults",
    "Schemas": "registry.schemas",
    "Snapshot": "broker",
    "State": "faults",
    "StoredRecord": "records",
    "Traffic": "hooks.traffic",
}


def __getattr__(name: str) -> Any:
    # Imported on demand: pytest imports this package for its plugin in every run.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

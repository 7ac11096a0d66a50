"""A broker as a Python object, for tests."""

from wirekafka.testing.admin import Group, Member
from wirekafka.testing.broker import Broker, Clock, Snapshot
from wirekafka.testing.faults import Match, Rule
from wirekafka.testing.records import Record, StoredRecord
from wirekafka.testing.traffic import Exchange, Traffic

__all__ = [
    "Broker", "Clock", "Exchange", "Group", "Match", "Member", "Record", "Rule", "Snapshot",
    "StoredRecord", "Traffic",
]

"""The sites at which a broker may crash, and the operations of a workload that they match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

_LOG = r"/data/(?:orders|facts|ledger)-\d/\d{20}"
_NEW = r"/data/(?:orders|facts|ledger)-\d/\d*[1-9]\d*"
_METADATA = r"/data/__cluster_metadata-0/\d{20}\.log"


@dataclass(frozen=True, slots=True)
class Site:
    """Operations of a step, matched by patterns; of each step only the `picked` ones.

    A crash is before the operation, or within it if it is an append; `is_after`: after it.
    """

    name: str
    step: str
    operation: str
    picked: tuple[int | None, int | None] = (None, None)
    is_after: bool = False

    def moments(self, operations: Sequence[str]) -> list[int]:
        """The numbers of the operations that this site matches."""
        step = re.compile(rf"\d+ (?:{self.step})")
        operation = re.compile(self.operation)
        parts = [_Part(number, *line.split(": ", 1)) for number, line in enumerate(operations)]
        found: list[int] = []
        for name, members in groupby(parts, key=attrgetter("step")):
            if step.fullmatch(name):
                numbers = [part.number for part in members if operation.fullmatch(part.what)]
                found += numbers[slice(*self.picked)]
        return found


@dataclass(frozen=True, slots=True)
class _Part:
    number: int
    step: str
    what: str


_WRITES = "produce|produce in transaction"
_ANY = ".*"

SITES = (
    # Appending
    Site("append, mid-batch", "produce", rf"append {_LOG}\.log \d+"),
    Site("append, before fsync", f"{_WRITES}|sync", rf"fsync {_LOG}\.log"),
    Site("append, after fsync", f"{_WRITES}|sync", rf"fsync {_LOG}\.log", is_after=True),
    Site("append, after the answer", _WRITES, "done"),
    # A new segment
    Site("roll, log created", _WRITES, rf"create {_NEW}\.log"),
    Site("roll, index created", _WRITES, rf"create {_NEW}\.index"),
    Site("roll, directory fsync", f"{_WRITES}|sync|clean", rf"fsync_directory {_LOG[:-7]}"),
    # Indexes
    Site("index flush", _ANY, rf"(append|fsync) {_LOG}\.index.*"),
    Site("time index flush", _ANY, rf"(append|fsync) {_LOG}\.timeindex.*"),
    Site("transaction index flush", _ANY, rf"(create|append|fsync) {_LOG}\.txnindex.*"),
    # Producers
    Site("producer snapshot, temporary file", _ANY, rf"write {_LOG}\.snapshot\.tmp"),
    Site("producer snapshot, rename", _ANY, rf"rename {_LOG}\.snapshot\.tmp .*"),
    Site(
        "producer snapshot, directory fsync",
        "stop|sync|clean",
        rf"fsync {_LOG}\.snapshot|fsync_directory {_LOG[:-7]}",
    ),
    # Checkpoints
    Site(
        "checkpoint of recovery points",
        _ANY,
        r"(write|fsync|rename) /data/recovery-point-offset-checkpoint.*",
    ),
    Site(
        "checkpoint of high watermarks",
        _ANY,
        r"(write|fsync|rename) /data/replication-offset-checkpoint.*",
    ),
    Site(
        "checkpoint of log starts",
        _ANY,
        r"(write|fsync|rename) /data/log-start-offset-checkpoint.*",
    ),
    Site("checkpoint of leader epochs", _ANY, r"(write|fsync|rename) .*/leader-epoch-checkpoint.*"),
    # Stopping
    Site("clean-shutdown marker written", "stop", r".* /data/\.kafka_cleanshutdown.*"),
    Site("clean-shutdown marker deleted", "start", r"unlink /data/\.kafka_cleanshutdown"),
    # Compaction
    Site("compaction, .cleaned to .swap", "clean", r"rename .*\.cleaned .*\.swap"),
    Site("compaction, .swap to live", "clean", r"rename .*\.swap .*"),
    Site("compaction, old deleted", "clean", r"unlink .*\.deleted"),
    # Deletion and topics
    Site("retention delete", "retain", r"(rename|unlink) .*\.deleted"),
    Site("topic create", "create topic|create internal topics", ".*"),
    Site("topic delete", "delete topic", ".*"),
    # Coordinators
    Site("offset commit", "commit offsets", ".*"),
    Site("group metadata", "join group", ".*"),
    Site("consumer group", "heartbeat of consumer group", ".*"),
    Site("streams group", "heartbeats of streams group", ".*"),
    Site("state of a share partition", "share state", ".*"),
    Site("transaction, prepare", "end transaction", r"append /data/__transaction_state.*", (0, 1)),
    Site(
        "transaction, between markers",
        "end transaction",
        r"append /data/(ledger-\d|__consumer_offsets-0)/\d{20}\.log.*",
        (1, None),
    ),
    Site(
        "transaction, complete", "end transaction", r"append /data/__transaction_state.*", (1, None)
    ),
    # Metadata
    Site("producer-id block", "producer id", rf"(append|fsync) {_METADATA}.*"),
    Site("metadata record", "configure", rf"(append|fsync) {_METADATA}.*"),
    Site("metadata snapshot swap", "snapshot", ".*"),
    Site("quorum state", "start", r".*quorum-state.*"),
)
"""The sites, without the one during recovery, which takes two crashes."""

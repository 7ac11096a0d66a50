"""A broker in this process, a registry and a catalog: topics, their translators and their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.registry.fake_registry import FakeRegistry, fake_registry
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.log.checkpoints import uuid_text
from wirekafka.schemas.framing import with_id
from wirekafka.tables.iceberg.catalog import open_catalog
from wirekafka.translation.messages import LeaderRange
from wirekafka.translation.settings import TableSettings
from wirekafka.translation.topic_files import TopicFiles
from wirekafka.translation.translator import Progress, TopicTranslator

NAMESPACE = "redpanda"
OPTIONS: Mapping[str, Any] = {
    "mode": "key_value",
    "write": "append",
    "invalid_record_action": "dlq_table",
    "partition_spec": "(hour(redpanda.timestamp))",
    "target_lag_ms": 60_000,
    "hold": False,
    "delete": False,
}

CUSTOMER = json.dumps(
    {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
)
WITH_AGE = json.dumps(
    {
        "type": "record",
        "name": "Customer",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "age", "type": ["null", "int"], "default": None},
        ],
    }
)
TYPED = "value_schema_id_prefix"


class TopicWorld:
    """Topics of an in-process broker under `path`, and the tables under `path / "tables"`."""

    def __init__(self, path: Path, registry: FakeRegistry):
        self.path = path
        self.fake_registry = registry
        self.registry = SchemaRegistry(registry.url)
        self.clock = ManualClock()
        self.kafka = InProcessBroker(path / "data", self.clock)
        self.ids: dict[str, str] = {}
        self.committed_ends: dict[tuple[str, int], int] = {}
        self.files = TopicFiles([str(path / "data")], self.committed_ends)

    def stop(self) -> None:
        self.files.close()
        self.registry.close()
        self.kafka.stop()

    @property
    def url(self) -> str:
        return str(self.path / "tables")

    def catalog(self) -> Catalog:
        return open_catalog(self.url)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self.ids[topic] = uuid_text(self.kafka.create(topic, partitions, **configs))

    def produce(
        self,
        topic: str,
        values: Sequence[bytes | None],
        partition: int = 0,
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        times_ms: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        now_ms = self.clock.now_ms()
        times_ms = times_ms or range(now_ms, now_ms + len(values))
        records = [
            Record(at, times_ms[at], b"k" if keys is None else keys[at], value, tuple(headers))
            for at, value in enumerate(values)
        ]
        data = bytes(encode_batch(records, options=BatchOptions(**options)))
        self.kafka.partition(topic, partition).leader.append_from_client(data, 1, now_ms)

    def register(self, subject: str, text: str, **more: Any) -> int:
        return self.registry.register(subject, text, **more)

    def produce_encoded(self, topic: str, id: int, payloads: Sequence[bytes]) -> None:
        self.produce(topic, [with_id(id, payload) for payload in payloads])

    def ranges(self, topic: str) -> dict[int, LeaderRange]:
        """The partitions as their leader would report them now."""
        found = {}
        for (name, index), partition in self.kafka.broker.partitions.items():
            if name == topic:
                log = partition.log
                end_offset = partition.last_stable_offset
                found[index] = LeaderRange(log.start_offset, end_offset, log.epochs.latest)
                self.committed_ends[topic, index] = end_offset
        return found

    def translator(
        self, topic: str, *, unknown_for_s: float = 0.0, **options: Any
    ) -> TopicTranslator:
        """A translator that by default does not wait for schemas that are unknown."""
        return TopicTranslator(
            topic,
            self.ids[topic],
            TableSettings.of({**OPTIONS, **options}),
            files=self.files,
            catalog=self.catalog(),
            namespace=NAMESPACE,
            registry=self.registry,
            unknown_for_s=unknown_for_s,
            now_s=lambda: self.clock.now_ms() / 1_000,
        )

    def translate(self, translator: TopicTranslator) -> Progress:
        return translator.translate(self.ranges(translator.topic))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table by partition and offset, without the columns' struct `redpanda`."""
        found = self.catalog().load_table((NAMESPACE, table)).scan().to_arrow().to_pylist()
        return sorted(
            ({**row.pop("redpanda"), **row} for row in found),
            key=lambda row: (row["partition"], row["offset"]),
        )

    def values(self, table: str, *columns: str) -> list[Any]:
        """The offsets and some columns of all rows."""
        return [(row["offset"], *(row[name] for name in columns)) for row in self.rows(table)]


@contextmanager
def topic_world(path: Path) -> Iterator[TopicWorld]:
    with fake_registry() as registry:
        world = TopicWorld(path, registry)
        try:
            yield world
        finally:
            world.stop()


def topic_id(text: str) -> str:
    """An id that no topic has."""
    return uuid_text(hashlib.sha256(text.encode()).digest()[:16])

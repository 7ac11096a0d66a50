"""A table of parts that several processes translate, which a worker then continues."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.translation.topic_world import NAMESPACE, OPTIONS, TopicWorld, topic_world
from wirekafka.schemas.avro.schema import parse
from wirekafka.tables.iceberg.problems import MarksMoved, WrongTable
from wirekafka.translation.backfill import PartTranslator, TranslatedPart
from wirekafka.translation.settings import TableSettings

CUSTOMER = {"type": "record", "name": "C", "fields": [{"name": "name", "type": "string"}]}
WITH_AGE = {
    **CUSTOMER,
    "fields": [*CUSTOMER["fields"], {"name": "age", "type": ["null", "int"], "default": None}],
}
TYPED = "value_schema_id_prefix"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


def part_translator(world: TopicWorld, topic: str, **options: str) -> PartTranslator:
    """A translator of another process: all are independent."""
    return PartTranslator(
        topic,
        world.ids[topic],
        TableSettings.of({**OPTIONS, **options}),
        files=world.files,
        catalog=world.catalog(),
        namespace=NAMESPACE,
        registry=world.registry,
    )


def translated(world: TopicWorld, topic: str, **options: str) -> list[TranslatedPart]:
    """All parts of a topic, each of another translator, after a journey between processes."""
    world.ranges(topic)
    splits = part_translator(world, topic, **options).splits(1)
    parts = [part_translator(world, topic, **options).translated(each) for each in splits]
    return [pickle.loads(pickle.dumps(each)) for each in parts]


def data_files(world: TopicWorld, topic: str) -> list[Path]:
    return list(Path(world.url, NAMESPACE, topic, "data").rglob("*.parquet"))


def test_parts_of_several_processes_are_the_table_that_a_worker_continues(
    world: TopicWorld,
) -> None:
    world.create("t", partitions=2)
    old, new = (world.register("t-value", json.dumps(each)) for each in (CUSTOMER, WITH_AGE))
    ada = parse(json.dumps(CUSTOMER)).encoded({"name": "Ada"})
    bob = parse(json.dumps(WITH_AGE)).encoded({"name": "Bob", "age": {"int": 7}})
    for id, payload in ((old, ada), (new, bob), (old, ada)):
        world.produce_encoded("t", id, [payload])
    world.produce("t", [b"no prefix"], 1)
    driver = part_translator(world, "t", mode=TYPED)
    driver.open()
    parts = translated(world, "t", mode=TYPED)
    assert len(parts) > 1
    assert driver.commit(parts).ends == {0: 3, 1: 1}
    assert world.values("t", "name", "age") == [(0, "Ada", None), (1, "Bob", 7), (2, "Ada", None)]
    assert [row["value"] for row in world.rows("t~dlq")] == [b"no prefix"]
    world.produce_encoded("t", new, [bob])
    assert world.translate(world.translator("t", mode=TYPED)).rows == 1
    assert [offset for (offset,) in world.values("t")] == [0, 1, 2, 3]


def test_parts_that_a_worker_was_faster_with_are_deleted(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a", b"b"])
    driver = part_translator(world, "t")
    driver.open()
    parts = translated(world, "t")
    world.translate(world.translator("t"))
    with pytest.raises(MarksMoved):
        driver.commit(parts)
    assert world.values("t", "value") == [(0, b"a"), (1, b"b")]
    assert len(data_files(world, "t")) == 1


def test_parts_of_an_older_partition_spec_are_refused(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    driver = part_translator(world, "t")
    driver.open()
    parts = translated(world, "t")
    part_translator(world, "t", partition_spec="()").open()
    with pytest.raises(WrongTable, match="partition spec was changed"):
        driver.commit(parts)
    assert data_files(world, "t") == []

"""A translator is killed at any step, again and again: each record is once in the table after all.

Records of two schemas, one with more columns, undecodable and null values are in several
partitions, so that each translation evolves columns, writes dead letters and rows.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.repetitions import repetitions
from tests.translation.topic_world import CUSTOMER, TYPED, WITH_AGE, TopicWorld, topic_world
from wirekafka.schemas.avro.schema import parse
from wirekafka.schemas.framing import with_id
from wirekafka.tables.iceberg import topic_table
from wirekafka.translation import translator as translator_module
from wirekafka.translation.translator import TopicTranslator

SITES: dict[str, tuple[Any, str]] = {
    "opening": (TopicTranslator, "open"),
    "reading": (translator_module, "read_chunk"),
    "decoding": (TopicTranslator, "_rows"),
    "evolving": (topic_table, "evolve_table"),
    "dead letters": (TopicTranslator, "_add_dead_letters"),
    "writing files": (topic_table, "write_rows"),
    "one attempt": (topic_table, "commit_once"),
    "the catalog": (SqlCatalog, "commit_table"),
    "a new table": (SqlCatalog, "create_table"),
    "appending": (topic_table.TopicTable, "append"),
}
"""Functions that a kill comes right before or right after."""


def kill_at(site: str, call: int, *, after: bool) -> None:
    """Have this process killed at a call of the site's function."""
    owner, name = SITES[site]
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def killing(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < call:
            return original(*args, **kwargs)
        if after:
            original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killing)


def translated_in_child(world: TopicWorld, site: str, call: int, *, after: bool) -> None:
    """Translate everything in a forked process, which is killed at the site if it comes there."""
    child = os.fork()
    if child == 0:
        try:
            kill_at(site, call, after=after)
            translate_all(world)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def translate_all(world: TopicWorld) -> None:
    translator = world.translator("t", mode=TYPED)
    while world.translate(translator).has_more:
        pass


class Producer:
    """Appends a random mix of records."""

    def __init__(self, world: TopicWorld, choose: random.Random):
        self._world = world
        self._choose = choose
        self._old = world.register("t-value", CUSTOMER), parse(CUSTOMER)
        self._new = world.register("t-value", WITH_AGE), parse(WITH_AGE)

    def produce(self) -> None:
        for partition in range(2):
            values = [self._value() for _ in range(self._choose.randrange(1, 6))]
            self._world.produce("t", values, partition)

    def _value(self) -> bytes | None:
        id, schema = self._choose.choice([self._old, self._old, self._new])
        match self._choose.randrange(8):
            case 0:
                return None
            case 1:
                return b"undecodable"
            case 2:
                return with_id(id, b"\xff")
            case _:
                more = {"age": {"int": 5}} if id == self._new[0] else {}
                return with_id(id, schema.encoded({"name": "Ada", **more}))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


def check(world: TopicWorld) -> None:
    """Table and dead letters have each offset once."""
    places = [
        (row["partition"], row["offset"])
        for table in ("t", "t~dlq")
        if world.catalog().table_exists(("redpanda", table))
        for row in world.rows(table)
    ]
    expected = [
        (partition, offset)
        for partition, log in world.ranges("t").items()
        for offset in range(log.start_offset, log.end_offset)
    ]
    assert sorted(places) == sorted(expected)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(
    "seed", range(repetitions("WIREKAFKA_TRANSLATION_SEEDS", usual=1, thorough=20))
)
def test_nothing_is_lost_or_there_twice(
    world: TopicWorld, site: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator_module, "_CHUNK_ROWS", 6)
    choose = random.Random(f"{site} {seed}")
    world.create("t", partitions=2)
    producer = Producer(world, choose)
    for _ in range(3):
        producer.produce()
        translated_in_child(world, site, choose.randrange(1, 3), after=bool(choose.randrange(2)))
    translate_all(world)
    check(world)
    assert json.dumps(sorted(world.translator("t", mode=TYPED).open().ends)) == "[0, 1]"

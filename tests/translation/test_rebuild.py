"""Tables that are set aside while their topics are translated, and written again from the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.translation.test_node_tables import Tables
from tests.translation.topic_world import NAMESPACE, TopicWorld, topic_world
from wirekafka.translation import translator as translator_module
from wirekafka.translation.rebuild import older_name, set_aside
from wirekafka.translation.translator import TopicTranslator

TYPED = "value_schema_id_prefix"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


def rebuild(world: TopicWorld, topic: str = "t") -> str:
    catalog = world.catalog()
    older = older_name(catalog, NAMESPACE, topic)
    set_aside(catalog, NAMESPACE, topic, older)
    return older


def translate_all(world: TopicWorld, translator: TopicTranslator) -> None:
    while world.translate(translator).has_more:
        pass


def offsets(world: TopicWorld, table: str = "t") -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in world.rows(table)]


def test_a_worker_writes_a_table_that_was_set_aside_again(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a", b"b"])
    translator = world.translator("t")
    translate_all(world, translator)
    assert rebuild(world) == "t~old-1"
    world.produce("t", [b"c"])
    translate_all(world, translator)
    assert offsets(world) == [(0, 0), (0, 1), (0, 2)]
    assert offsets(world, "t~old-1") == [(0, 0), (0, 1)]
    assert rebuild(world) == "t~old-2"
    translator.check()
    translate_all(world, translator)
    assert offsets(world) == [(0, 0), (0, 1), (0, 2)]
    locations = {
        world.catalog().load_table((NAMESPACE, name)).location()
        for name in ("t", "t~old-1", "t~old-2")
    }
    assert len(locations) == 3


def test_a_worker_that_is_late_adds_nothing_to_the_table_that_another_made(
    world: TopicWorld,
) -> None:
    world.create("t", partitions=2)
    for partition in (0, 1):
        world.produce("t", [b"a", b"b"], partition)
    first, second = world.translator("t"), world.translator("t")
    first.translate({0: world.ranges("t")[0]})
    second.translate({1: world.ranges("t")[1]})
    rebuild(world)
    for partition in (0, 1):
        world.produce("t", [b"c"], partition)
    for _ in range(3):
        first.translate({0: world.ranges("t")[0]})
    for _ in range(3):
        second.translate({1: world.ranges("t")[1]})
    assert offsets(world) == [(partition, at) for partition in (0, 1) for at in range(3)]


@pytest.mark.parametrize("is_set_aside_before_the_rows", [False, True])
def test_dead_letters_of_an_earlier_table_are_set_aside(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch, is_set_aside_before_the_rows: bool
) -> None:
    id = world.register("t-value", '"string"')
    world.create("t")
    world.produce_encoded("t", id, [b"\x02a", b"", b"\x02b"])
    translator = world.translator("t", mode=TYPED)
    translate_all(world, translator)
    assert (offsets(world), offsets(world, "t~dlq")) == ([(0, 0), (0, 2)], [(0, 1)])
    world.produce_encoded("t", id, [b"", b"\x02c"])
    if is_set_aside_before_the_rows:
        # Between the commits of the dead letters and of the rows.
        add_dead_letters = translator._add_dead_letters

        def add_and_rebuild(*arguments: Any) -> int:
            monkeypatch.undo()
            count = add_dead_letters(*arguments)
            rebuild(world)
            return count

        monkeypatch.setattr(translator, "_add_dead_letters", add_and_rebuild)
    else:
        rebuild(world)
    translate_all(world, translator)
    assert offsets(world) == [(0, 0), (0, 2), (0, 4)]
    assert offsets(world, "t~dlq") == [(0, 1), (0, 3)]
    assert offsets(world, "t~old-1") == [(0, 0), (0, 2)]
    assert (0, 1) in offsets(world, "t~dlq~old-1")


def test_a_table_without_new_records_is_written_again_soon(world: TopicWorld) -> None:
    tables = Tables(world)
    world.create("t")
    world.produce("t", [b"a"])
    tables.assign("t")
    tables.run()
    tables.now_s += 61
    tables.run()
    rebuild(world)
    for _ in range(2):
        tables.now_s += 61
        tables.run()
    assert offsets(world) == [(0, 0)]


def test_a_table_of_another_history_goes_on_after_a_rebuild(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    world.produce("t", [b"a", b"b"])
    translator = world.translator("t")
    translate_all(world, translator)
    world.produce("t", [b"c"])
    with monkeypatch.context() as patched:
        patched.setattr(translator_module, "divergence", lambda *_: 1)
        translator._checked.clear()
        with pytest.raises(translator_module.TablePaused, match="wirekafka tables rebuild t"):
            world.translate(translator)
        rebuild(world)
        translate_all(world, translator)
    assert offsets(world) == [(0, 0), (0, 1), (0, 2)]

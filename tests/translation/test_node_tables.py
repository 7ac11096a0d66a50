"""Which table of a node has its turn, and what is reported of each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.translation.topic_world import NAMESPACE, OPTIONS, TopicWorld, topic_world
from wirekafka.metrics.table_status import DeletableTable, TableState, TableStatus
from wirekafka.translation.messages import Assignment, TopicAssignment
from wirekafka.translation.node_tables import NodeTables
from wirekafka.translation.problems import TableRetrying
from wirekafka.translation.translator import TopicTranslator


class Tables:
    """The tables of a world's topics under a clock that the test moves."""

    def __init__(self, world: TopicWorld):
        self.world = world
        self.now_s = 1_000.0
        self.reported: list[tuple[str, TableState, str | None, dict[int, int]]] = []
        self.options: dict[str, dict[str, Any]] = {}
        self.deletable: list[DeletableTable] = []
        self.marks: dict[str, str] = {}
        self.tables = NodeTables(
            files=world.files,
            committed_ends=world.committed_ends,
            catalog=world.catalog,
            namespace=NAMESPACE,
            registry=world.registry,
            report=self._report,
            now_s=lambda: self.now_s,
            now_ms=lambda: int(self.now_s * 1_000),
        )

    def _report(self, status: TableStatus | DeletableTable) -> None:
        if isinstance(status, DeletableTable):
            self.deletable.append(status)
            return
        self.reported.append((status.topic, status.state, status.error, dict(status.ends)))

    def assign(self, *topics: str, deleted: tuple[tuple[str, str], ...] = ()) -> None:
        self.tables.assign(
            Assignment(
                tuple(
                    TopicAssignment(
                        topic,
                        self.world.ids[topic],
                        {**OPTIONS, **self.options.get(topic, {})},
                        self.world.ranges(topic),
                        self.marks.get(topic),
                    )
                    for topic in topics
                ),
                deleted,
            )
        )

    def run(self, most: int = 100) -> int:
        """Take the turns that are due now; returns how many there were."""
        turns = 0
        while turns < most and self.tables.turn() is not None:
            turns += 1
        return turns

    def translator(self, topic: str) -> TopicTranslator:
        found = self.tables._tables[topic, self.world.ids[topic]].translator
        assert found is not None
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


@pytest.fixture
def tables(world: TopicWorld) -> Tables:
    return Tables(world)


def test_records_are_committed_once_they_are_as_old_as_the_target_lag(
    world: TopicWorld, tables: Tables
) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.assign("t")
    tables.run()
    assert world.rows("t") == []
    assert tables.tables.next_due_s() == tables.now_s + 60
    tables.now_s += 60
    tables.run()
    assert world.values("t") == [(0,)]
    assert tables.reported[-1] == ("t", TableState.RUNNING, None, {0: 1})
    assert tables.tables.next_due_s() == tables.now_s + 30


def test_a_table_is_there_before_its_first_record(world: TopicWorld, tables: Tables) -> None:
    world.create("t")
    tables.assign("t")
    tables.run()
    assert world.rows("t") == []


def test_many_records_do_not_wait(
    world: TopicWorld, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirekafka.translation.node_tables._FULL_RECORDS", 3)
    world.create("t")
    world.produce("t", [b"a", b"b", b"c"])
    tables.assign("t")
    tables.run()
    assert len(world.rows("t")) == 3


def test_a_paused_table_keeps_no_other_from_its_turn(world: TopicWorld, tables: Tables) -> None:
    for topic in ("good", "wrong"):
        world.create(topic)
        world.produce(topic, [b"a"])
    tables.options["wrong"] = {"partition_spec": "(nonsense(redpanda.timestamp))"}
    tables.assign("good", "wrong")
    tables.run()
    tables.now_s += 61
    tables.run()
    assert len(world.rows("good")) == 1
    states = {topic: (state, error) for topic, state, error, _ in tables.reported}
    assert states["good"] == (TableState.RUNNING, None)
    state, error = states["wrong"]
    assert state is TableState.PAUSED and error is not None and "nonsense" in error
    assert len([each for each in tables.reported if each[0] == "wrong"]) == 1


def test_other_options_end_a_pause(world: TopicWorld, tables: Tables) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.options["t"] = {"partition_spec": "(nonsense(redpanda.timestamp))"}
    tables.assign("t")
    tables.run()
    tables.options["t"] = {"target_lag_ms": 0}
    tables.assign("t")
    tables.run()
    assert len(world.rows("t")) == 1


def test_a_topic_that_is_led_elsewhere_is_left_alone(world: TopicWorld, tables: Tables) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.assign("t")
    tables.run()
    tables.assign()
    tables.now_s += 61
    assert tables.run() == 0
    assert world.rows("t") == []


@pytest.mark.parametrize("is_dropped", [True, False])
def test_the_table_of_a_deleted_topic_is_dropped_if_the_topic_said_so(
    world: TopicWorld, tables: Tables, is_dropped: bool
) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.options["t"] = {"delete": is_dropped}
    tables.assign("t")
    tables.run()
    tables.assign(deleted=(("t", world.ids["t"]),))
    tables.run()
    assert world.catalog().table_exists((NAMESPACE, "t")) is not is_dropped


def test_the_table_of_a_topic_that_was_deleted_before_this_process_is_dropped(
    world: TopicWorld, tables: Tables
) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.assign("t")
    tables.run()
    later = Tables(world)
    later.assign(deleted=(("t", "another"), ("u", "none")))
    later.run()
    assert world.catalog().table_exists((NAMESPACE, "t")), "its topic had another id"
    later.assign(deleted=(("t", world.ids["t"]),))
    later.run()
    assert not world.catalog().table_exists((NAMESPACE, "t"))


def test_tables_that_go_with_their_topics_are_found_by_a_later_process(
    world: TopicWorld, tables: Tables
) -> None:
    for topic in ("kept", "t"):
        world.create(topic)
        world.produce(topic, [b"a"])
    tables.marks["t"] = "cluster@7"
    tables.assign("kept", "t")
    tables.run()
    later = Tables(world)
    later.run()
    assert later.deletable == [DeletableTable("t", world.ids["t"], "cluster@7")]
    assert later.tables.next_due_s() is None, "they are looked at once"


def test_a_mark_comes_and_goes_with_the_option_of_the_topic(
    world: TopicWorld, tables: Tables
) -> None:
    world.create("t")
    for mark, found in (("c@7", ["c@7"]), ("c@9", ["c@7"]), (None, [])):
        now = Tables(world)
        now.marks = {} if mark is None else {"t": mark}
        now.assign("t")
        now.tables.turn()
        later = Tables(world)
        later.run()
        assert [each.mark for each in later.deletable] == found


def test_a_table_that_lost_its_files_keeps_no_other_from_being_found(
    world: TopicWorld, tables: Tables
) -> None:
    for topic in ("a", "b"):
        world.create(topic)
        tables.marks[topic] = "c@7"
    tables.assign("a", "b")
    tables.run()
    metadata = world.catalog().load_table((NAMESPACE, "a")).metadata_location
    Path(metadata.removeprefix("file://")).unlink()
    later = Tables(world)
    later.run()
    assert [each.topic for each in later.deletable] == ["b"]


def test_an_error_of_the_code_is_reported_and_tried_again(
    world: TopicWorld, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.options["t"] = {"target_lag_ms": 0}
    with monkeypatch.context() as broken:
        broken.setattr("wirekafka.translation.translator.read_chunk", lambda *_, **__: 1 // 0)
        tables.assign("t")
        tables.run()
    assert tables.reported[-1][1] is TableState.RETRYING
    tables.now_s += 2
    tables.run()
    assert len(world.rows("t")) == 1


def test_a_table_whose_look_at_its_marks_fails_keeps_no_other_from_its_turn(
    world: TopicWorld, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("broken", "good"):
        world.create(topic)
    tables.assign("broken", "good")
    tables.run()

    def refuse() -> None:
        raise TableRetrying("the catalog is locked")

    monkeypatch.setattr(tables.translator("broken"), "check", refuse)
    tables.now_s += 31
    assert tables.run(most=10) == 2
    assert tables.tables.next_due_s() == tables.now_s + 1


def test_a_backlog_keeps_no_other_table_from_its_turn(
    world: TopicWorld, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirekafka.translation.translator._CHUNK_ROWS", 1)
    for topic in ("big", "small"):
        world.create(topic)
        tables.options[topic] = {"target_lag_ms": 0}
    for _ in range(8):
        world.produce("big", [b"a"])
    tables.assign("big", "small")
    tables.run(most=2)
    tables.now_s += 1
    world.produce("small", [b"a"])
    tables.assign("big", "small")
    tables.run(most=2)
    assert len(world.rows("small")) == 1
    assert len(world.rows("big")) == 1


def test_an_error_of_the_code_in_maintenance_or_a_drop_ends_no_other_work(
    world: TopicWorld, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    tables.assign("t")
    monkeypatch.setattr("wirekafka.translation.node_tables.Maintenance.step", lambda *_: 1 // 0)
    monkeypatch.setattr("wirekafka.translation.node_tables.drop_tables", lambda *_: 1 // 0)
    monkeypatch.setattr("wirekafka.translation.node_tables.Maintenance.is_due", lambda *_: True)
    tables.run(most=2)
    tables.assign("t", deleted=(("u", "none"),))
    assert tables.run(most=3) == 3
    tables.now_s += 1
    world.produce("t", [b"a"])
    tables.options["t"] = {"target_lag_ms": 0}
    tables.assign("t")
    tables.run(most=2)
    assert len(world.rows("t")) == 1


@pytest.mark.parametrize("deleted", ["directory", "catalog.db", "content of catalog.db"])
def test_tables_that_were_deleted_under_the_worker_are_written_again(
    world: TopicWorld, tables: Tables, deleted: str
) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.options["t"] = {"target_lag_ms": 0}
    tables.assign("t")
    tables.run()
    if deleted == "directory":
        shutil.rmtree(world.url)
    elif deleted == "catalog.db":
        (Path(world.url) / deleted).unlink()
    else:
        (Path(world.url) / "catalog.db").write_bytes(b"")
    world.produce("t", [b"b"])
    for _ in range(3):
        tables.assign("t")
        tables.run()
        tables.now_s += 61
    assert world.values("t", "value") == [(0, b"a"), (1, b"b")]
    assert tables.reported[-1][1] is TableState.RUNNING


def test_a_catalog_file_that_was_restored_from_a_backup_is_written_on(
    world: TopicWorld, tables: Tables
) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    tables.options["t"] = {"target_lag_ms": 0}
    tables.assign("t")
    tables.run()
    file = Path(world.url) / "catalog.db"
    backup = file.with_name("backup")
    shutil.copy(file, backup)
    for value in (b"b", b"c"):
        world.produce("t", [value])
        tables.assign("t")
        tables.run()
        if value == b"b":
            backup.rename(file)
    assert world.values("t", "value") == [(0, b"a"), (1, b"b"), (2, b"c")]

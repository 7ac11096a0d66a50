"""A topic's next records become rows of its table: each once, whatever happens in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.fake_registry import Fault
from tests.tables.typed.avro_generated import zigzag
from tests.translation.topic_world import (
    CUSTOMER,
    NAMESPACE,
    TYPED,
    WITH_AGE,
    TopicWorld,
    topic_world,
)
from wirekafka.client.schema_registry import RegisteredSchema, SchemaRegistry
from wirekafka.schemas.avro.schema import parse
from wirekafka.schemas.framing import with_id
from wirekafka.translation import translator as translator_module
from wirekafka.translation.problems import TablePaused, TableRetrying


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


def test_records_become_rows_with_their_place_time_key_and_headers(world: TopicWorld) -> None:
    world.create("t", partitions=2)
    world.produce("t", [b"a", None], headers=[("h", b"1"), ("n", None)])
    world.produce("t", [b"b"], 1, keys=[None])
    translator = world.translator("t")
    assert world.translate(translator).rows == 3
    first, second, third = world.rows("t")
    assert first["timestamp"].timestamp() * 1000 == world.clock.now_ms()
    assert (first["key"], first["value"], first["timestamp_type"]) == (b"k", b"a", 0)
    assert first["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert (second["offset"], second["value"]) == (1, None)
    assert (third["partition"], third["offset"], third["key"]) == (1, 0, None)
    assert translator.marks.ends == {0: 2, 1: 1}


def test_a_later_commit_adds_what_came_since(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    translator = world.translator("t")
    world.translate(translator)
    assert world.translate(translator).rows == 0
    world.produce("t", [b"b", b"c"])
    assert world.translate(translator).rows == 2
    assert world.values("t", "value") == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_another_translator_goes_on_where_the_marks_end(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    world.translate(world.translator("t"))
    world.produce("t", [b"b"])
    world.translate(world.translator("t"))
    assert world.values("t", "value") == [(0, b"a"), (1, b"b")]


def test_two_translators_at_once_add_each_record_once(world: TopicWorld) -> None:
    world.create("t")
    first, second = world.translator("t"), world.translator("t")
    first.open()
    second.open()
    for _ in range(3):
        world.produce("t", [b"a", b"b"])
        world.translate(first)
        stale = world.translate(second)
        assert (stale.rows, stale.has_more) == (0, True)
    assert [offset for (offset,) in world.values("t")] == list(range(6))


def test_a_commit_has_a_limited_number_of_records(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator_module, "_CHUNK_ROWS", 4)
    world.create("t", partitions=2)
    for partition in (0, 1):
        for _ in range(3):
            world.produce("t", [b"a"] * 3, partition)
    translator = world.translator("t")
    commits = 1
    while world.translate(translator).has_more:
        commits += 1
    assert commits > 2
    places = [(row["partition"], row["offset"]) for row in world.rows("t")]
    assert places == [(partition, offset) for partition in (0, 1) for offset in range(9)]


def test_typed_values_have_columns_of_their_own(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    world.produce_encoded("t", id, [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.translate(world.translator("t", mode=TYPED))
    assert world.values("t", "name") == [(0, "Ada")]


def test_a_newer_schema_adds_its_columns_and_older_records_lack_them(world: TopicWorld) -> None:
    world.create("t")
    old, new = world.register("t-value", CUSTOMER), world.register("t-value", WITH_AGE)
    ada = parse(CUSTOMER).encoded({"name": "Ada"})
    bob = parse(WITH_AGE).encoded({"name": "Bob", "age": {"int": 7}})
    world.produce_encoded("t", old, [ada])
    translator = world.translator("t", mode=TYPED)
    world.translate(translator)
    world.produce_encoded("t", new, [bob])
    world.produce_encoded("t", old, [ada])
    world.translate(translator)
    assert world.values("t", "name", "age") == [(0, "Ada", None), (1, "Bob", 7), (2, "Ada", None)]


def test_a_null_value_is_a_row_without_values(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    world.produce("t", [None])
    world.produce_encoded("t", id, [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.translate(world.translator("t", mode=TYPED))
    assert world.values("t", "name") == [(0, None), (1, "Ada")]


def test_values_that_do_not_decode_are_dead_letters_with_their_reason(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    ada = parse(CUSTOMER).encoded({"name": "Ada"})
    world.produce("t", [b"no prefix"])
    world.produce_encoded("t", id, [ada, ada + b"more", ada])
    world.produce_encoded("t", 999, [ada])
    progress = world.translate(world.translator("t", mode=TYPED))
    assert (progress.rows, progress.dead_letters) == (2, 3)
    assert world.values("t", "name") == [(1, "Ada"), (3, "Ada")]
    dead = world.rows("t~dlq")
    assert [row["offset"] for row in dead] == [0, 2, 4]
    assert dead[0]["value"] == b"no prefix" and "no schema id" in dead[0]["error"]
    assert "no schema 999" in dead[2]["error"]


@pytest.mark.parametrize("transform", ["hour", "day", "identity", "month", "bucket"])
@pytest.mark.parametrize("logical", ["timestamp-millis", "local-timestamp-micros", "date"])
def test_a_time_that_no_partition_can_have_is_a_dead_letter(
    world: TopicWorld, transform: str, logical: str
) -> None:
    """A time is refused only if the table has partitions by its date."""
    if (transform, logical) == ("hour", "date"):
        pytest.skip("a date has no hour")
    last = {
        "timestamp-millis": 253_402_300_799_999,
        "local-timestamp-micros": 253_402_300_799_999_999,
        "date": 2_932_896,
    }[logical]
    at = {"type": "int" if logical == "date" else "long", "logicalType": logical}
    field = {"name": "at", "type": ["null", at], "default": None}
    text = json.dumps({"type": "record", "name": "Event", "fields": [field]})
    id = world.register("t-value", text)
    world.create("t")
    world.produce_encoded("t", id, [b"\0", *(b"\2" + zigzag(time) for time in (0, last, last + 1))])
    term = "bucket(4, at)" if transform == "bucket" else f"{transform}(at)"
    spec = "(at)" if transform == "identity" else f"({term})"
    progress = world.translate(world.translator("t", mode=TYPED, partition_spec=spec))
    if transform in ("month", "bucket"):
        assert (progress.rows, progress.dead_letters) == (4, 0)
        return
    assert (progress.rows, progress.dead_letters) == (3, 1)
    [dead] = world.rows("t~dlq")
    assert dead["offset"] == 3
    assert dead["error"] == (
        f"at is not of the years 1 to 9999, and the table is partitioned by {transform} of it"
    )


def test_an_id_that_a_late_registry_does_not_know_yet_is_awaited(world: TopicWorld) -> None:
    world.create("t", partitions=2)
    id = world.register("t-value", CUSTOMER)
    value = with_id(id, b"\2a")
    world.produce("t", [value, with_id(id + 1, b"\2b\0"), value])
    world.produce("t", [value], 1)
    translator = world.translator("t", mode=TYPED, unknown_for_s=30)
    progress = world.translate(translator)
    assert (progress.rows, progress.dead_letters, progress.has_more) == (2, 0, True)
    world.produce("t", [value], 1)
    assert world.translate(translator).rows == 1, "the other partition goes on"
    with pytest.raises(TableRetrying, match=f"has no schema {id + 1}: it is awaited for 30 s"):
        world.translate(translator)
    assert world.register("t-value", WITH_AGE) == id + 1
    assert world.translate(translator).rows == 2
    assert world.values("t", "name")[:3] == [(0, "a"), (1, "b"), (2, "a")]


def test_an_id_that_stays_unknown_is_a_dead_letter_in_the_end(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    value, unknown = with_id(id, b"\2a"), with_id(999, b"")
    world.produce("t", [unknown, value])
    translator = world.translator("t", mode=TYPED, unknown_for_s=30)
    with pytest.raises(TableRetrying):
        world.translate(translator)
    world.produce("t", [unknown, value])
    world.clock.advance(30_000)
    progress = world.translate(translator)
    assert (progress.rows, progress.dead_letters) == (1, 1), "later records wait for their part"
    with pytest.raises(TableRetrying):
        world.translate(translator)
    world.clock.advance(30_000)
    progress = world.translate(translator)
    assert (progress.rows, progress.dead_letters, progress.has_more) == (1, 1, False)


def test_a_turn_looks_up_a_limited_number_of_schemas_and_keeps_what_is_done(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wirekafka.translation.schemas._MOST_LOOK_UPS", 3)
    world.create("t", partitions=2)
    id = world.register("t-value", CUSTOMER)
    unknown = [with_id(9_000 - at, b"") for at in range(7)]
    world.produce("t", unknown)
    world.produce("t", [with_id(id, b"\2a")], 1)
    translator = world.translator("t", mode=TYPED)
    turns = [world.translate(translator) for _ in range(3)]
    assert [(each.rows, each.dead_letters, each.has_more) for each in turns] == [
        (0, 3, True),
        (1, 2, True),
        (0, 2, False),
    ]
    assert (
        len([path for path in world.fake_registry.paths if "/ids/9" in path or "/ids/8" in path])
        == 7
    )


def test_a_slow_registry_ends_a_turn_early(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    world.produce("t", [with_id(9_000 + at, b"") for at in range(4)])
    translator = world.translator("t", mode=TYPED)
    schema_of = world.registry.schema

    def slow(id: int) -> RegisteredSchema:
        world.clock.advance(16_000)
        return schema_of(id)

    monkeypatch.setattr(world.registry, "schema", slow)
    turns = [world.translate(translator) for _ in range(2)]
    assert [(each.dead_letters, each.has_more) for each in turns] == [(2, True), (2, False)]


def test_dead_letters_can_be_dropped(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"no prefix"])
    translator = world.translator("t", mode=TYPED, invalid_record_action="drop")
    assert world.translate(translator).dead_letters == 1
    assert not world.catalog().table_exists(("redpanda", "t~dlq"))
    assert translator.marks.ends == {0: 1}


def test_dead_letters_are_once_in_their_table_after_a_crash_before_the_rows(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("t")
    world.produce("t", [b"bad", b"worse"])
    crashing = world.translator("t", mode=TYPED)
    crashing.open()
    assert crashing._table is not None
    monkeypatch.setattr(crashing._table, "append", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.translate(crashing)
    world.produce("t", [b"worst"])
    world.translate(world.translator("t", mode=TYPED))
    assert [row["offset"] for row in world.rows("t~dlq")] == [0, 1, 2]


@pytest.mark.parametrize("mode", [TYPED, "value_schema_latest"])
def test_what_answers_without_codes_of_a_registry_is_asked_again(
    world: TopicWorld, mode: str
) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    world.produce_encoded("t", id, [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.fake_registry.faults.append(Fault(404, b"<html>no page at this path"))
    with pytest.raises(TableRetrying, match="404"):
        world.translate(world.translator("t", mode=mode))


def test_a_registry_that_fails_is_tried_again_and_nothing_is_dead(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    world.produce_encoded("t", id, [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.fake_registry.faults.append(Fault(503, b"{}"))
    with pytest.raises(TableRetrying):
        world.translate(world.translator("t", mode=TYPED))
    world.registry = SchemaRegistry(world.fake_registry.url)  # It remembers no failure.
    world.translate(world.translator("t", mode=TYPED))
    assert world.values("t", "name") == [(0, "Ada")]


def test_values_without_a_prefix_have_the_latest_schema_of_the_subject(world: TopicWorld) -> None:
    world.create("t")
    world.register("other", CUSTOMER)
    world.produce("t", [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.translate(world.translator("t", mode="value_schema_latest:subject=other"))
    assert world.values("t", "name") == [(0, "Ada")]


def test_a_subject_without_a_schema_pauses_the_table(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    with pytest.raises(TablePaused, match="no subject t-value"):
        world.translate(world.translator("t", mode="value_schema_latest"))


def test_the_table_of_an_older_topic_of_that_name_pauses(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    world.translate(world.translator("t"))
    world.ids["t"] = "AAAAAAAAAAAAAAAAAAAAAQ"
    with pytest.raises(TablePaused):
        world.translate(world.translator("t"))


def test_a_table_ahead_of_the_log_waits_for_it(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a", b"b"])
    translator = world.translator("t")
    world.translate(translator)
    restored = {0: world.ranges("t")[0]._replace(end_offset=1)}
    with pytest.raises(TableRetrying, match="committed records end at 1"):
        world.translator("t").translate(restored)


def test_a_bad_partition_spec_pauses_the_table(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"a"])
    with pytest.raises(TablePaused):
        world.translate(world.translator("t", partition_spec="(hour(nothing))"))


def test_a_renamed_field_keeps_its_column_also_for_records_of_the_older_schema(
    world: TopicWorld,
) -> None:
    renamed = json.loads(CUSTOMER)
    renamed["fields"][0] = {"name": "title", "type": "string", "aliases": ["name"]}
    world.create("t")
    old, new = world.register("t-value", CUSTOMER), world.register("t-value", json.dumps(renamed))
    ada = parse(CUSTOMER).encoded({"name": "Ada"})
    world.produce_encoded("t", old, [ada])
    world.translate(world.translator("t", mode=TYPED))
    world.produce_encoded("t", new, [ada])
    world.translate(world.translator("t", mode=TYPED))
    world.produce_encoded("t", old, [ada])
    world.translate(world.translator("t", mode=TYPED))
    assert world.values("t", "title") == [(0, "Ada"), (1, "Ada"), (2, "Ada")]
    assert "name" not in world.rows("t")[0]


def test_a_table_of_keys_has_the_newest_record_of_each(world: TopicWorld) -> None:
    world.create("t")
    world.produce("t", [b"1", b"2", b"3"], keys=[b"a", b"b", b"a"])
    translator = world.translator("t", write="upsert")
    world.translate(translator)
    assert world.values("t", "key", "value") == [(1, b"b", b"2"), (2, b"a", b"3")]
    world.produce("t", [None, b"4", b"lost"], keys=[b"a", b"c", None])
    world.translate(translator)
    assert world.values("t", "key", "value") == [(1, b"b", b"2"), (4, b"c", b"4")]
    [dead] = world.rows("t~dlq")
    assert dead["offset"] == 5 and "no key" in dead["error"]


def test_a_topic_may_change_its_mode_and_back(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    world.produce("t", [b"a"])
    world.translate(world.translator("t"))
    world.produce_encoded("t", id, [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.translate(world.translator("t", mode=TYPED))
    world.produce("t", [b"c"])
    world.translate(world.translator("t"))
    assert world.values("t", "value", "name") == [
        (0, b"a", None),
        (1, None, "Ada"),
        (2, b"c", None),
    ]


def test_a_table_of_fields_gets_the_column_of_bytes(world: TopicWorld) -> None:
    world.create("t")
    id = world.register("t-value", CUSTOMER)
    world.produce_encoded("t", id, [parse(CUSTOMER).encoded({"name": "Ada"})])
    world.translate(world.translator("t", mode=TYPED))
    world.produce("t", [b"b"])
    world.translate(world.translator("t"))
    assert world.values("t", "value", "name") == [(0, None, "Ada"), (1, b"b", None)]


def test_a_field_in_the_way_of_the_column_of_bytes_pauses_the_table(world: TopicWorld) -> None:
    text = CUSTOMER.replace('"name", "type"', '"value", "type"')
    world.create("t")
    id = world.register("t-value", text)
    world.produce_encoded("t", id, [parse(text).encoded({"value": "Ada"})])
    world.translate(world.translator("t", mode=TYPED))
    world.produce("t", [b"b"])
    with pytest.raises(TablePaused, match="column value is string and cannot become binary"):
        world.translate(world.translator("t"))


def test_partition_values_may_be_longer_than_names_of_files(world: TopicWorld) -> None:
    world.create("t")
    keys = [b"k" * 400, b"/../\xff\x00", b"", None]
    world.produce("t", [b"v"] * 4, keys=keys)
    world.translate(world.translator("t", partition_spec="(redpanda.key)"))
    assert world.values("t", "key") == list(enumerate(keys))


def test_the_longest_name_of_a_topic_is_one_of_a_table_also_after_a_drop(world: TopicWorld) -> None:
    name = "n" * 249
    world.create(name)
    world.produce(name, [b"a"])
    for _ in range(2):
        world.translate(world.translator(name))
        assert world.values(name, "value") == [(0, b"a")]
        world.catalog().drop_table((NAMESPACE, name))


@pytest.mark.parametrize("write", ["append", "upsert"])
def test_records_of_many_hours_are_several_commits(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    for name in ("topic_table", "upsert"):
        monkeypatch.setattr(f"wirekafka.tables.iceberg.{name}.MOST_PARTS", 3)
    world.create("t", partitions=4)
    for partition in range(4):
        hours_ms = [hour * 3_600_000 for hour in range(partition, partition + 5)]
        keys = [b"%d" % at for at in range(5)]
        world.produce("t", [b"a"] * 5, partition, keys=keys, times_ms=hours_ms)
    translator = world.translator("t", write=write)
    while world.translate(translator).has_more:
        pass
    assert world.values("t") == [(offset,) for offset in range(5)] * 4
    for snapshot in world.catalog().load_table((NAMESPACE, "t")).snapshots():
        assert snapshot.summary is not None
        assert int(snapshot.summary["changed-partition-count"] or 0) <= 3


def test_large_records_of_many_partitions_are_several_commits(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator_module, "_CHUNK_BYTES", 1_000)
    world.create("t", partitions=5)
    for partition in range(5):
        world.produce("t", [b"a" * 600], partition)
    translator = world.translator("t")
    assert world.translate(translator).rows == 2
    world.produce("t", [b"a" * 600])
    assert world.translate(translator).rows == 2, "partition 0 has no turn before the others"
    assert set(translator.marks.ends) == {0, 1, 2, 3}
    while world.translate(translator).has_more:
        pass
    assert len(world.rows("t")) == 6

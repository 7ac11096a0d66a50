"""Tables that equal their logs, and each way in which they may not."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from tests.registry.fake_registry import fake_registry
from tests.translation.example_tables import TYPED, MemoryLog, Row, catalog_in, record, row, stored
from tests.translation.topic_world import TopicWorld, topic_world
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.codec.record import Record, encode_batch
from wirekafka.reader import DataLost, Split
from wirekafka.schemas.framing import with_id
from wirekafka.translation.comparison import log_windows
from wirekafka.translation.comparison.log_values import LogValues
from wirekafka.translation.comparison.stored_rows import StoredRows
from wirekafka.translation.schemas import TopicSchemas
from wirekafka.translation.translator import TopicTranslator
from wirekafka.translation.verification import Claim, VerificationReport, verify

RECORDS = [record(partition, offset) for partition in (0, 1) for offset in range(20)]
MARKS = {0: 20, 1: 20}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each range takes several windows, by rows and by offsets."""
    monkeypatch.setattr(log_windows, "_ROWS", 12)
    monkeypatch.setattr(log_windows, "SPAN", 16)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return catalog_in(tmp_path_factory.mktemp("tables"))


def compared(
    catalog: Catalog,
    rows: Sequence[Row],
    records: Sequence[Row] = RECORDS,
    *,
    starts: dict[int, int] | None = None,
    claimed_starts: dict[int, int] | None = None,
    **claimed: object,
) -> VerificationReport:
    known = {"marks": MARKS, "starts": claimed_starts or {}}
    claim = Claim(topic="t", **(known | claimed))  # type: ignore[arg-type]
    return verify(MemoryLog(records, starts), claim, stored(catalog, rows))


def texts(report: VerificationReport) -> list[str]:
    return [str(each) for each in report.differences]


def rows_of(records: Sequence[Row] = RECORDS) -> list[Row]:
    return [row(each) for each in records]


def test_a_table_with_each_record_once_is_equal(catalog: Catalog) -> None:
    report = compared(catalog, rows_of()[::-1])
    assert report.is_equal and texts(report) == []
    assert [(each.records, each.rows) for each in report.partitions] == [(20, 20), (20, 20)]


def test_an_empty_table_is_equal_to_no_marks(catalog: Catalog) -> None:
    assert compared(catalog, [], marks={}).is_equal
    found = texts(compared(catalog, [], marks={0: 1}))
    assert found == ["t: partition 0, offset 0: missing"]


def _without(rows: list[Row]) -> None:
    del rows[27]


def _doubled(rows: list[Row]) -> None:
    rows.append(rows[27])


def _foreign(rows: list[Row]) -> None:
    rows.append(row(record(1, 25)))


def _changed(**fields: object) -> Callable[[list[Row]], None]:
    def change(rows: list[Row]) -> None:
        rows[27] = row(RECORDS[27], **fields)

    return change


LATER = datetime.fromtimestamp(1_700_000_007, UTC) + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_without, "t: partition 1, offset 7: missing"),
        (_doubled, "t: partition 1, offset 7: twice"),
        (_changed(value=b"other"), "t: partition 1, offset 7: changed: value"),
        (_changed(value=None), "t: partition 1, offset 7: changed: value"),
        (_changed(key=b""), "t: partition 1, offset 7: changed: key"),
        (_changed(key=None), "t: partition 1, offset 7: changed: key"),
        (_changed(timestamp=LATER), "t: partition 1, offset 7: changed: timestamp"),
        (_changed(timestamp_type=1), "t: partition 1, offset 7: changed: timestamp_type"),
        (_changed(headers=None), "t: partition 1, offset 7: changed: headers"),
        (
            _changed(headers=[{"key": "h", "value": None}]),
            "t: partition 1, offset 7: changed: headers",
        ),
        (
            _changed(headers=[{"key": "H", "value": b"7"}]),
            "t: partition 1, offset 7: changed: headers",
        ),
        (_changed(key=b"x", value=b"y"), "t: partition 1, offset 7: changed: key, value"),
        (_foreign, "t: partition 1, offset 25: beyond the marks: the mark is 20"),
        (_changed(partition=7), None),
        (_changed(offset=None), None),
        (_changed(partition=None), None),
    ],
)
def test_each_row_that_differs_is_found(
    catalog: Catalog, change: Callable[[list[Row]], None], found: str | None
) -> None:
    rows = rows_of()
    change(rows)
    report = compared(catalog, rows)
    assert not report.is_equal
    if found is not None:
        assert texts(report) == [found]
    else:
        missing, unplaced = texts(report)
        assert missing == "t: partition 1, offset 7: missing" and unplaced.endswith("unplaced")


def test_headers_that_are_an_empty_list_are_none(catalog: Catalog) -> None:
    rows = [row(each, headers=each["headers"] or []) for each in RECORDS]
    assert compared(catalog, rows).is_equal


def test_records_that_are_not_committed_should_have_no_row(catalog: Catalog) -> None:
    records = [each for each in RECORDS if each["offset"] not in (3, 4)]
    report = compared(catalog, rows_of(), records)
    assert texts(report)[0] == (
        "t: partition 0, offset 3: unexpected: the log has no such committed record"
    )
    assert report.counts.total() == 4
    assert compared(catalog, rows_of(records), records).is_equal


def test_of_a_compacted_log_rows_may_be_left(catalog: Catalog) -> None:
    records = [each for each in RECORDS if each["offset"] not in (3, 4)]
    report = compared(catalog, rows_of(), records, is_compacted=True)
    assert report.is_equal
    assert [each.compacted_away for each in report.partitions] == [2, 2]


def test_rows_below_the_start_of_the_log_are_only_counted(catalog: Catalog) -> None:
    records = [each for each in RECORDS if each["offset"] >= 10]
    report = compared(catalog, rows_of(), records, starts={0: 10, 1: 10})
    assert report.is_equal
    assert [(each.rows_below_start, each.rows) for each in report.partitions] == [(10, 10)] * 2
    twice = compared(catalog, [*rows_of(), rows_of()[2]], records, starts={0: 10, 1: 10})
    assert texts(twice) == ["t: partition 0, offset 2: twice"]


def test_a_log_that_ends_ahead_of_the_marks_is_reported(catalog: Catalog) -> None:
    report = compared(catalog, rows_of(), RECORDS[:30], marks={0: 20, 1: 20, 2: 4})
    assert texts(report)[0] == (
        "t: partition 1, offset 20: beyond the marks: the log ends at 10, the mark is 20"
    )
    assert texts(report)[-1] == (
        "t: partition 2, offset 4: beyond the marks: the log has no such partition"
    )


def test_a_dead_letter_is_in_one_of_both_tables(catalog: Catalog) -> None:
    typed = [
        {"redpanda": row(each)["redpanda"], "id": each["offset"], "name": "n"}
        for each in RECORDS
        if each["offset"] not in (4, 5)
    ]
    dead = [row(each) for each in RECORDS if each["offset"] in (4, 5)]
    table = stored(catalog, typed, TYPED)
    assert not table.is_key_value
    claim = Claim(topic="t", marks={0: 19, 1: 20}, compares_values=False)
    ahead = Claim(topic="t", marks=MARKS, dead_letter_marks={0: 31, 1: 20}, compares_values=False)
    log = MemoryLog(RECORDS)
    letters = stored(catalog, dead)
    report = verify(log, ahead, table, letters)
    assert report.is_equal
    assert [(each.rows, each.dead_letters) for each in report.partitions] == [(18, 2), (18, 2)]
    assert texts(verify(log, claim, table, letters)) == [
        "t: partition 0, offset 19: beyond the marks: the mark is 19"
    ]
    assert [str(each.kind) for each in verify(log, ahead, table).differences] == ["missing"] * 4
    more = [*dead[1:], row(record(0, 30)), row(RECORDS[6]), row(RECORDS[25], value=b"")]
    letters = stored(catalog, more)
    assert sorted(texts(verify(log, ahead, table, letters))) == [
        "t: partition 0, offset 4: missing",
        "t: partition 0, offset 6: twice: it is a dead letter, too",
        "t~dlq: partition 1, offset 5: twice",
    ]


def test_dropped_records_are_counted(catalog: Catalog) -> None:
    report = compared(catalog, rows_of(RECORDS[2:]), drops_invalid=True)
    assert report.is_equal
    assert [each.dropped for each in report.partitions] == [2, 0]


def keyed(keys: str) -> list[Row]:
    """Records of one partition with these keys; those in upper case are tombstones."""
    return [
        record(
            0, offset, key=key.lower().encode(), value=None if key.isupper() else b"v%d" % offset
        )
        for offset, key in enumerate(keys)
    ]


def test_an_upserted_table_has_the_newest_record_of_each_key(catalog: Catalog) -> None:
    records = keyed("abcabdBacA" + "cbe")
    log = MemoryLog(records)
    claim = Claim(topic="t", marks={0: 13}, is_upsert=True)

    def found(offsets: Sequence[int]) -> list[str]:
        rows = stored(catalog, [row(records[each]) for each in offsets])
        return texts(verify(log, claim, rows))

    assert found([5, 10, 11, 12]) == []
    assert found([5, 8, 11, 12]) == [
        "t: partition 0, offset 10: missing",
        "t: partition 0, offset 8: unexpected: there is a newer record of its key",
    ]
    assert found([5, 7, 10, 11, 12]) == [
        "t: partition 0, offset 7: unexpected: there is a newer record of its key"
    ]
    assert found([]) == [f"t: partition 0, offset {each}: missing" for each in (5, 10, 11, 12)]


def test_an_upserted_table_has_no_older_rows_below_the_start(catalog: Catalog) -> None:
    records = keyed("abcab")
    log = MemoryLog(records[2:], {0: 2})
    claim = Claim(topic="t", marks={0: 5}, is_upsert=True)
    rows = [row(records[each]) for each in (0, 2, 3, 4)] + [row(record(0, 1, key=b"x"))]
    table = stored(catalog, rows)
    report = verify(log, claim, table)
    assert texts(report) == [
        "t: partition 0, offset 0: unexpected: the log has a newer record of the key"
    ]
    assert report.partitions[0].rows_below_start == 2


def test_many_differences_are_counted_and_the_first_are_named(catalog: Catalog) -> None:
    records = [record(0, offset) for offset in range(100)]
    report = compared(catalog, [], records, marks={0: 100})
    assert len(report.differences) == 20
    assert report.counts.total() == 100


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    with topic_world(tmp_path) as world:
        yield world


def verified(
    world: TopicWorld, translator: TopicTranslator, values: LogValues | None = None, **claimed: bool
) -> VerificationReport:
    """What a translator has written, compared with the log's files."""
    table, *letters = translator.tables
    claim = Claim(
        topic="t",
        marks=table.marks.ends,
        dead_letter_marks=letters[0].marks.ends if letters else {},
        **claimed,
    )
    rows = [StoredRows(each.table) for each in translator.tables]
    return verify(world.files.reader, claim, *rows, values=values)


def test_translated_records_are_equal_to_the_log(world: TopicWorld) -> None:
    far_ms = 1 << 50  # Beyond the times that Python has.
    any_time = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
    world.create("t", partitions=2, **any_time)
    world.produce("t", [b"a", None, b""], keys=[b"k", None, b""], headers=[("h", None), ("h", b"")])
    world.produce("t", [b"b"], 1)
    records = [Record(0, time_ms, b"k", b"far") for time_ms in (-1, 0, far_ms)]
    leader = world.kafka.partition("t", 0).leader
    for record_of_time in records:
        leader.append_from_client(bytes(encode_batch([record_of_time])), 1, world.clock.now_ms())
    translator = world.translator("t")
    while world.translate(translator).has_more:
        pass
    report = verified(world, translator)
    assert texts(report) == []
    assert [(each.records, each.rows) for each in report.partitions] == [(6, 6), (1, 1)]
    times = [row["timestamp"] for row in world.rows("t")]
    assert [str(time) for time in times[3:6]] == [
        "1969-12-31 23:59:59.999000+00:00",
        "1970-01-01 00:00:00+00:00",
        "None",
    ]


PART = {
    "type": "record",
    "name": "Part",
    "fields": [
        {"name": "weight", "type": "double"},
        {"name": "from", "type": {"type": "int", "logicalType": "date"}},
    ],
}
FIELDS = [
    {"name": "name", "type": "string"},
    {"name": "level", "type": ["null", "float"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
    {"name": "parts", "type": ["null", {"type": "array", "items": PART}], "default": None},
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}, "default": ""},
]


def _measured(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "Measured", "fields": fields})


def _encoded(text: str, **value: object) -> bytes:
    """A payload by a schema without logical types, so that any number is a time."""
    plain = text.replace('"logicalType"', '"comment"')
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(plain)), value)
    return buffer.getvalue()


def test_typed_columns_are_equal_to_the_values_of_the_log(world: TopicWorld) -> None:
    older, newer = _measured(FIELDS[0]), _measured(*FIELDS)
    ids = [world.register("t-value", each) for each in (older, newer)]
    parts = [{"weight": math.nan, "from": 0}, {"weight": 1.5, "from": 1 << 30}]
    far_us = 1 << 60  # Beyond the year 9999.
    values = [
        {"name": "b", "level": math.nan, "at": far_us, "parts": parts, "id": str(UUID(int=7))},
        {"name": "c", "level": 0.5, "at": -5, "parts": [], "id": str(UUID(int=8))},
        {"name": "d", "level": None, "at": 0, "parts": None, "id": str(UUID(int=9))},
    ]
    records = [
        with_id(ids[0], _encoded(older, name="a")),
        *(with_id(ids[1], _encoded(newer, **each)) for each in values),
        None,
        b"no prefix",
        with_id(999, b""),
    ]
    world.create("t")
    translator = world.translator("t", mode="value_schema_id_prefix")
    for some in (records[:2], records[2:]):  # pyiceberg cannot write the first ones again.
        world.produce("t", some)
        world.translate(translator)

    def differences(registry: SchemaRegistry, undecoded: int) -> list[str]:
        for opened in translator.tables:
            opened.refresh()
        rows = StoredRows(translator.tables[0].table)
        values = LogValues(TopicSchemas(registry), rows.value_type, rows.renames)
        report = verified(world, translator, values, compares_values=False)
        assert [each.undecoded for each in report.partitions] == [undecoded]
        return texts(report)

    assert differences(world.registry, 0) == []
    table = translator.tables[0].table
    changed = table.scan(row_filter="name == 'c'").to_arrow()
    for name, value in (("name", "C"), ("parts", parts[:1])):
        column = pa.array([value], changed.schema.field(name).type)
        changed = changed.set_column(changed.column_names.index(name), name, column)
    table.overwrite(changed, "name == 'c'")
    found = ["t: partition 0, offset 2: changed: name, parts"]
    assert differences(world.registry, 0) == found
    with fake_registry() as empty:
        assert differences(SchemaRegistry(empty.url), 4) == []


def test_records_that_were_deleted_before_the_table_began_are_not_missing(catalog: Catalog) -> None:
    """Files have deleted records until the broker removes or notes them."""
    late = [each for each in RECORDS if each["offset"] >= 5]
    assert not compared(catalog, rows_of(late)).is_equal
    report = compared(catalog, rows_of(late), claimed_starts={0: 5, 1: 5})
    assert texts(report) == []
    assert [(each.start_offset, each.records) for each in report.partitions] == [(5, 15)] * 2


def test_records_that_are_deleted_meanwhile_are_not_missing(catalog: Catalog) -> None:
    class Shrinking(MemoryLog):
        def read(self, split: Split, **more: Any) -> Iterator[pa.RecordBatch]:
            for batch in super().read(split, **more):
                if split.start_offset < 9 <= batch.column("offset")[-1].as_py():
                    raise DataLost("t-0", split.start_offset, 9, "deleted")
                yield batch

    claim = Claim(topic="t", marks=MARKS)
    report = verify(Shrinking(RECORDS), claim, stored(catalog, rows_of()))
    assert texts(report) == []
    missing = [each for each in rows_of() if each["redpanda"]["offset"] != 12]
    report = verify(Shrinking(RECORDS), claim, stored(catalog, missing))
    assert texts(report) == [f"t: partition {each}, offset 12: missing" for each in (0, 1)]


def test_translated_keys_are_equal_to_the_newest_records(world: TopicWorld) -> None:
    world.create("t")
    translator = world.translator("t", write="upsert")
    for letters in ("abca", "Bdd", "ae"):
        keys = [letter.lower().encode() for letter in letters]
        values = [None if letter.isupper() else letter.encode() for letter in letters]
        world.produce("t", values, keys=keys)
        world.produce("t", [b"no key"], keys=[None])
        while world.translate(translator).has_more:
            pass
    report = verified(world, translator, is_upsert=True)
    assert texts(report) == []
    [numbers] = report.partitions
    assert (numbers.records, numbers.rows, numbers.dead_letters) == (12, 4, 3)
    assert not verified(world, translator).is_equal


def test_translated_values_and_dead_letters_are_equal_to_the_log(world: TopicWorld) -> None:
    id = world.register("t-value", '"string"')
    world.create("t")
    world.produce_encoded("t", id, [b"\x02a", b"", b"\x02b"])
    translator = world.translator("t", mode="value_schema_id_prefix")
    while world.translate(translator).has_more:
        pass
    report = verified(world, translator, compares_values=False)
    assert texts(report) == []
    assert (report.partitions[0].rows, report.partitions[0].dead_letters) == (2, 1)

"""Steps of a stream as Spark 4.2 and later requests them; older versions have no such classes."""

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="Spark before 4.2")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # type: ignore[import-not-found,unused-ignore]

from tests.spark.known_log import KnownLog
from wirekafka.reader.source import OffsetRange
from wirekafka.spark import stream
from wirekafka.spark.available_now import AvailableNowReader
from wirekafka.spark.options import stream_options

GIVEN = {"path": "/data", "subscribe": "orders", "startingOffsets": "earliest"}


def test_available_now_ends_where_the_log_ended_at_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = KnownLog(orders=[(0, 100), (20, 50)])
    monkeypatch.setattr(stream, "open_log", lambda options: log)
    query = AvailableNowReader(stream_options(GIVEN | {"maxOffsetsPerTrigger": "65"}))
    assert query.getDefaultReadLimit() == ReadMaxRows(65)
    query.prepareForTriggerAvailableNow()
    log.ranges["orders", 0] = OffsetRange(0, 500)
    start, spans = query.initialOffset(), []
    while (end := query.latestOffset(start, ReadMaxRows(65))) != start:
        splits = [task.split for task in query.partitions(start, end)]
        spans += [(each.partition, each.start_offset, each.end_offset) for each in splits]
        start = end
    assert spans == [(0, 0, 50), (1, 20, 35), (0, 50, 100), (1, 35, 50)]
    assert query.reportLatestOffset() == {"orders": {"0": 500, "1": 50}}


def test_without_a_limit_a_step_has_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    log = KnownLog(orders=[(0, 100)])
    monkeypatch.setattr(stream, "open_log", lambda options: log)
    query = AvailableNowReader(stream_options(GIVEN))
    assert query.getDefaultReadLimit() == ReadAllAvailable()
    end = query.latestOffset({"orders": {"0": 40}}, ReadAllAvailable())
    assert end == {"orders": {"0": 100}}

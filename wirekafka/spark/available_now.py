"""Steps as Spark 4.2 and later request them: with limits, and up to a fixed end (AvailableNow)."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found]
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from wirekafka.reader.source import OffsetRange
from wirekafka.spark.offsets import TopicPartition, to_json
from wirekafka.spark.options import Options
from wirekafka.spark.stream import Json, StreamReader


class AvailableNowReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream whose steps Spark limits itself; Trigger.AvailableNow reads all in several steps."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._target: dict[TopicPartition, OffsetRange] | None = None

    def getDefaultReadLimit(self) -> Any:
        """The option `maxOffsetsPerTrigger`."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """The end of the next step, from its start and within Spark's limit."""
        return self._end_of_step(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query: records that arrive later are for the next query."""
        self._target = self._available()

    def reportLatestOffset(self) -> Json:
        """The ends of the logs, for the progress of the query."""
        available = super()._available()
        return to_json({each: offsets.end_offset for each, offsets in available.items()})

    def _available(self) -> dict[TopicPartition, OffsetRange]:
        return super()._available() if self._target is None else self._target

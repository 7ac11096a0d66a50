"""What a query reads: its partitions, from where to where, and the splits for its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wirekafka.reader.problems import ReaderError, UnknownLog
from wirekafka.reader.source import OffsetRange, Split
from wirekafka.reader.wire_log import WireLog
from wirekafka.regex import regex_of
from wirekafka.spark.access import StoredLog
from wirekafka.spark.offsets import OffsetSpan, Positions, TopicPartition, chunk_size, chunks
from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.options import EARLIEST, LATEST, Offsets, Options, Position

TARGET_BYTES = 64 << 20
"""The size of a split: enough that the start of its task costs little."""


class DataLossFailure(ReaderError):
    """Records that a query was to read are gone, and `failOnDataLoss` is set."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; with failOnDataLoss=false the query goes on")


class QueryPlan:
    """Resolves the options of a query against a log as it is now."""

    def __init__(self, log: StoredLog | WireLog, options: Options) -> None:
        self._log, self._options = log, options

    def partitions(self) -> list[TopicPartition]:
        """The partitions that the options name. Raises UnknownLog if one does not exist."""
        topics = self._options.topics
        if topics.assigned is not None:
            found = self._log.all_partitions(topics.assigned)
            for topic, chosen in topics.assigned.items():
                missing = set(chosen) - set(found[topic])
                if missing:
                    raise UnknownLog(f"topic {topic} has no partition {min(missing)}")
            found = {topic: list(chosen) for topic, chosen in topics.assigned.items()}
        else:
            found = self._log.all_partitions(self._names())
        return [(topic, each) for topic in sorted(found) for each in found[topic]]

    def present_partitions(self) -> list[TopicPartition]:
        """The `partitions` that exist; partitions that do not are a loss of data."""
        try:
            return self.partitions()
        except UnknownLog as error:
            self.lose(str(error))
        names = set(self._log.topics())
        topics = self._options.topics
        wanted = names & set(topics.assigned if topics.assigned is not None else topics.names)
        found = self._log.all_partitions(wanted)
        assigned = topics.assigned or found
        return [
            (topic, each)
            for topic in sorted(found)
            for each in found[topic]
            if each in assigned[topic]
        ]

    def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        """The first offset and the safe end of each partition."""
        return self._log.all_offsets(partitions, isolation=self._options.isolation)

    def starts(self, available: Mapping[TopicPartition, OffsetRange]) -> Positions:
        """The first offset to read of each partition."""
        return self._resolve("starting", self._options.start, available)

    def ends(self, available: Mapping[TopicPartition, OffsetRange]) -> Positions:
        """The offset of each partition at which a batch query ends."""
        return self._resolve("ending", self._options.end, available)

    def spans(self, starts: Positions, ends: Positions) -> list[OffsetSpan]:
        """What is to be read of each partition; partitions without records are left out."""
        spans = [OffsetSpan(*each, starts[each], end) for each, end in sorted(ends.items())]
        return [span for span in spans if span.size > 0]

    def splits(self, spans: list[OffsetSpan]) -> list[Split]:
        """Parts for tasks, by size and by the options for the number and size of partitions."""
        step = chunk_size(
            spans,
            at_least=self._options.min_partitions,
            at_most=self._options.max_records_per_partition,
        )
        found: list[Split] = []
        for topic, partition, start, end in (each for span in spans for each in chunks(span, step)):
            try:
                found += self._log.splits(
                    topic,
                    partition,
                    start,
                    end,
                    target_bytes=TARGET_BYTES,
                    isolation=self._options.isolation,
                )
            except UnknownLog as error:
                self.lose(str(error))
        return found

    def lose(self, reason: str) -> None:
        """Fail for lost data, unless the options allow it."""
        if self._options.fails_on_data_loss:
            raise DataLossFailure(reason)

    def without_lost_offsets(self, span: OffsetSpan, available: OffsetRange) -> OffsetSpan:
        """The span without offsets that the log does not have; these are a loss of data."""
        name = f"{span.topic}-{span.partition}"
        if span.start_offset < available.start_offset and span.size > 0:
            self.lose(
                f"{name}: offset {span.start_offset} is gone, the log starts at offset"
                f" {available.start_offset}"
            )
        if span.end_offset > available.end_offset:
            self.lose(
                f"{name}: offset {span.end_offset} is beyond the end of the log, which is offset"
                f" {available.end_offset}"
            )
        return span._replace(
            start_offset=max(span.start_offset, available.start_offset),
            end_offset=min(span.end_offset, available.end_offset),
        )

    def _names(self) -> Iterable[str]:
        topics = self._options.topics
        if topics.pattern is None:
            return topics.names
        pattern = regex_of(topics.pattern)
        return [topic for topic in self._log.topics() if pattern.matches(topic)]

    def _resolve(
        self, word: str, position: Position, available: Mapping[TopicPartition, OffsetRange]
    ) -> Positions:
        if position.timestamp_ms is not None:
            times = dict.fromkeys(available, position.timestamp_ms)
            return self._at_times(word, times, available)
        if position.timestamps_ms is not None:
            times = _of_each(position.timestamps_ms, f"{word}OffsetsByTimestamp", available)
            return self._at_times(word, times, available)
        if position.offsets is not None:
            given = _of_each(position.offsets, f"{word}Offsets", available)
        else:
            given = dict.fromkeys(available, position.everywhere or LATEST)
        resolved: Positions = {}
        for each, offset in given.items():
            start, end = available[each]
            resolved[each] = {EARLIEST: start, LATEST: end}.get(offset, offset)
        return resolved

    def _at_times(
        self,
        word: str,
        times_ms: Mapping[TopicPartition, int],
        available: Mapping[TopicPartition, OffsetRange],
    ) -> Positions:
        found = self._log.offsets_for_times(times_ms, isolation=self._options.isolation)
        fails = word == "starting" and not self._options.late_start_is_latest
        for (topic, partition), offset in found.items():
            if offset is None and fails:
                time_ms = times_ms[topic, partition]
                raise OptionError(
                    f"{topic}-{partition} has no record of time {time_ms} or later;"
                    " startingOffsetsByTimestampStrategy=latest starts at its end"
                )
        return {
            each: available[each].end_offset if offset is None else offset
            for each, offset in found.items()
        }


def _of_each(
    given: Offsets, option: str, available: Mapping[TopicPartition, OffsetRange]
) -> Positions:
    """The values of an option, which must have one for each partition and no others."""
    found = {(topic, each): value for topic, of in given.items() for each, value in of.items()}
    missing = sorted(set(available) - set(found))
    if missing:
        raise OptionError("{}: nothing for {}-{}".format(option, *missing[0]))
    unread = sorted(set(found) - set(available))
    if unread:
        raise OptionError("{}: {}-{} is not read".format(option, *unread[0]))
    return found

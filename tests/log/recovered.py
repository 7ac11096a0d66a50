"""Comparison of recovered logs, and a check for holes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.log.batches import values
from tests.log.cleaning import batches_left
from wirekafka.codec.batch import BatchHeader
from wirekafka.log.log import Log


def described(log: Log) -> tuple[object, ...]:
    """Everything that clients can see of a log, and the state that recovery rebuilds."""
    return (
        values(batches_left(log)),
        log.start_offset,
        log.end_offset,
        log.producers.encode_snapshot(),
        log.producers.first_undecided_offset,
        log.aborted_transactions(log.start_offset, log.end_offset),
        log.max_timestamp_offset(),
    )


def assert_no_hole(log: Log, found: Sequence[BatchHeader]) -> None:
    """Each batch begins where the one before it ended, from the start to the end."""
    end_offset = found[0].base_offset if found else log.end_offset
    assert end_offset <= log.start_offset or not found
    for header in found:
        assert header.base_offset == end_offset, (log.name, header)
        end_offset = header.end_offset
    assert end_offset == log.end_offset, log.name

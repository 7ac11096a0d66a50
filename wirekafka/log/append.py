"""The types of an append: its origin and parameters, the validated batch, result and refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from wirekafka.codec.batch import BatchHeader, Buffer
from wirekafka.errors import Error, KafkaError

_SHOWN_ERRORS = 3


class Origin(Enum):
    """The origin of a batch: batches of clients are validated, batches of coordinators trusted."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(slots=True, kw_only=True)
class Append:
    """The parameters of an append, beside the batch.

    `guard` is what `Verifications.begin` returned for a transactional write, None without one.
    `transaction_version` is the transaction version of the marker being written (KIP-890).
    """

    leader_epoch: int
    now_ms: int
    origin: Origin = Origin.CLIENT
    guard: object | None = None
    transaction_version: int = 0
    defers: bool = False
    """Whether a batch that inflates to more than a MiB, or whose schemas must be looked up, raises
    `TakesLong`: `ahead` is then computed first."""
    long_crc: int = -1
    """The checksum of the last batch that raised `TakesLong`, whose check is not begun again."""
    ahead: Checked | None = None
    """The same batch, checked and converted before its append."""


class TakesLong(Exception):
    """A client's batch inflates to more than may be checked while other requests wait, or its
    schemas must be looked up."""


class Checked(NamedTuple):
    """A validated batch: its header (base offset still 0) and the bytes after the 16-byte prefix.

    `log_append_time_ms` is -1 for a topic with CreateTime.
    """

    header: BatchHeader
    rest: Sequence[Buffer]
    log_append_time_ms: int


class Appended(NamedTuple):
    """The result of an append: the offsets of the batch, and whether it was a duplicate.

    `log_append_time_ms` is -1 for topics with CreateTime; `start_offset` is the start offset of the
    log.
    """

    base_offset: int
    end_offset: int
    log_append_time_ms: int
    start_offset: int
    duplicate: bool


class RecordsRefused(KafkaError):
    """The error of an append whose batch is refused.

    `message` goes into the response; Kafka leaves it out unless single records are at fault, and
    then `record_errors` has (index in the batch, message) of each (KIP-467). `detail` is for the
    log.
    """

    def __init__(
        self,
        error: Error,
        detail: str,
        message: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
    ):
        super().__init__(error, message)
        self.args = (f"{error.name}: {message or detail}",)
        self.detail = detail
        self.record_errors = list(record_errors)


def invalid_record(detail: str) -> RecordsRefused:
    """INVALID_RECORD for a batch that contradicts its header or Kafka's rules."""
    return RecordsRefused(Error.INVALID_RECORD, detail)


def invalid_records(errors: Sequence[tuple[int, str]]) -> RecordsRefused:
    """INVALID_RECORD for single records, given by index and message, with Kafka's summary."""
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{message}')"
        for index, message in errors[:_SHOWN_ERRORS]
    )
    message = (
        f"One or more records have been rejected due to {len(errors)} record errors in total,"
        f" and only showing the first three errors at most: [{shown}]"
    )
    return RecordsRefused(Error.INVALID_RECORD, message, message, errors)


def too_large(size_bytes: int, limit_bytes: int) -> RecordsRefused:
    """MESSAGE_TOO_LARGE for a batch above max.message.bytes, as sent or after recompression."""
    return RecordsRefused(
        Error.MESSAGE_TOO_LARGE,
        f"The record batch size is {size_bytes} bytes, which exceeds the maximum configured value"
        f" of {limit_bytes}",
    )

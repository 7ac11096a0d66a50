"""The words of an append: who asks for it, a batch fit to be written, where it went, a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from wirekafka.codec.batch import BatchHeader, Buffer
from wirekafka.errors import Error, KafkaError


class Origin(Enum):
    """Who made the batch: a client is checked, a coordinator of this broker is trusted."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(slots=True, kw_only=True)
class Append:
    """The circumstances of an append.

    `guard` is what `Verifications.begin` gave for a transactional write, None without one.
    `transaction_version` is that of the marker being written (KIP-890).
    """

    leader_epoch: int
    now_ms: int
    origin: Origin = Origin.CLIENT
    guard: object | None = None
    transaction_version: int = 0


class Checked(NamedTuple):
    """A batch fit to be appended: its header (base offset still 0), and what follows the prefix.

    `log_append_time_ms` is -1 for a topic with CreateTime.
    """

    header: BatchHeader
    rest: Sequence[Buffer]
    log_append_time_ms: int


class Appended(NamedTuple):
    """Where a batch went. `log_append_time_ms` is -1 for topics with CreateTime."""

    base_offset: int
    end_offset: int
    log_append_time_ms: int
    start_offset: int
    duplicate: bool


class RecordsRefused(KafkaError):
    """A batch that is not appended.

    `message` is what the client is told, which in Kafka is nothing unless single records are at
    fault; then `record_errors` says which ones and why (KIP-467). `detail` is for the log.
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
    """The refusal of a batch that is not as its header says."""
    return RecordsRefused(Error.INVALID_RECORD, detail)


def too_large(size_bytes: int, limit_bytes: int) -> RecordsRefused:
    """The refusal of a batch above max.message.bytes, as sent or as compressed anew."""
    return RecordsRefused(
        Error.MESSAGE_TOO_LARGE,
        f"The record batch size is {size_bytes} bytes, which exceeds the maximum configured value"
        f" of {limit_bytes}",
    )

"""What a follower of the metadata quorum asks its leader for, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.runtime.replicated_log import Buffer


class LogPosition(NamedTuple):
    """The parameters of a Fetch request, which are needed again to check its response."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedLog:
    """The partition of a Fetch response without an error, and the position it answers."""

    asked: LogPosition
    high_watermark: int
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where this log diverges from the leader's; `records` is empty then."""

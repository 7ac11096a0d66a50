"""The requests of a follower of the metadata quorum to its leader, and their responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.runtime.replicated_log import Buffer


class Position(NamedTuple):
    """The parameters of a Fetch request, which are needed again to check its response."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The partition of a Fetch response without an error, and the position it answers."""

    asked: Position
    high_watermark: int
    records: Buffer = b""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where this log diverges from the leader's; `records` is empty then."""

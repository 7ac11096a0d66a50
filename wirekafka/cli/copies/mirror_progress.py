"""The progress of a copy that is made once, as a bar on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wirekafka.clock import Timer
    from wirekafka.replication.mirroring.mirror_fetcher import CopiedPartition
    from wirekafka.server.mirroring.mirroring import Mirroring
    from wirekafka.server.monitoring.service import Monitoring
    from wirekafka.server.node import Node

_EVERY_MS = 300
_WIDTH = 30
_MEGABYTE = 1_000_000


class MirrorProgress:
    """Draws the bar beside a node, until the copy is complete (`Companion`)."""

    counts_requests = False

    def __init__(self, out: TextIO = sys.stderr):
        self._out = out
        self._timer: Timer | None = None
        self._began_s = 0.0

    def serving(self, node: Node, monitoring: Monitoring | None) -> None:
        """Begin to draw, on a terminal."""
        mirroring = node.mirroring
        if mirroring is None or not self._out.isatty():
            return
        self._began_s = time.monotonic()
        self._draw(node, mirroring)

    async def stopping(self) -> None:
        """End the line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._out.write("\n")

    def _draw(self, node: Node, mirroring: Mirroring) -> None:
        text = bar(mirroring.copied.values(), time.monotonic() - self._began_s)
        self._out.write(f"\r{text}\x1b[K")
        self._out.flush()
        if mirroring.is_complete:
            self._timer = None
            self._out.write("\n")
            return
        self._timer = node.broker.clock.call_later(_EVERY_MS, lambda: self._draw(node, mirroring))


def bar(copied: Iterable[CopiedPartition], elapsed_s: float) -> str:
    """One line: the share of the offsets, the bytes and their rate."""
    done = total = size_bytes = 0
    for each in copied:
        size_bytes += each.copied_bytes
        if each.goal is not None:
            start = each.partition.log.start_offset
            total += max(each.goal - start, 0)
            end = each.goal if each.is_complete else each.partition.log.end_offset
            done += max(min(end, each.goal) - start, 0)
    share = done / total if total else 0.0
    filled = "#" * int(share * _WIDTH)
    rate = size_bytes / _MEGABYTE / elapsed_s if elapsed_s > 0 else 0.0
    return (
        f"[{filled:<{_WIDTH}}] {share:4.0%}  {done:,} of {total:,} offsets,"
        f" {size_bytes / _MEGABYTE:,.1f} MB at {rate:.1f} MB/s"
    )

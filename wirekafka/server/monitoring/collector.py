"""The contract of collectors, which read one part of a node at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from wirekafka.metrics.exposition import Table


class Collector(Protocol):
    """Fills its tables when they are asked for; nothing is kept up to date in between."""

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that the collector fills."""

    def collect(self) -> Iterator[None]:
        """Fill the tables in steps of at most a millisecond: requests are served in between."""

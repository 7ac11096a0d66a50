"""The metadata feed of a broker: committed batches of the metadata log, in order."""

from __future__ import annotations

from typing import Protocol


class MetadataFeed(Protocol):
    """Delivers each committed batch once, with its end offset."""

    position: int
    """The end offset of the metadata that the broker has applied."""

    async def reached(self, offset: int) -> None:
        """Return once everything below `offset` is applied; raises the feed's fatal error."""

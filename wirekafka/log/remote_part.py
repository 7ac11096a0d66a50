"""The part of a log that is in remote storage, as the log itself needs to know it."""

from __future__ import annotations


class RemotePart:
    """The range of a tiered log that has been copied to remote storage."""

    __slots__ = ("copied_end_offset", "readable_end_offset", "start_offset")

    def __init__(self, start_offset: int):
        self.start_offset = start_offset
        """The log start offset: no record below it is in the log, remote or not."""
        self.copied_end_offset = -1
        """The end of all that was ever copied; -1 if nothing was, or if it is not known yet."""
        self.readable_end_offset = -1
        """Up to where what is here is readable in remote storage too, so that it may go; or -1."""

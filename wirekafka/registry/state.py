"""All that a registry knows: the machine that is folded over the records of `_schemas`."""

from __future__ import annotations

from wirekafka.registry.entry import Entry


class RegistryState:
    """Schemas by id, GUID, subject and version; configurations and modes of subjects."""

    def __init__(self) -> None:
        self.end_offset = 0

    def replay(self, entry: Entry, offset: int, timestamp_ms: int) -> None:
        """Take a record in. Records that cannot be understood are logged and skipped."""
        self.end_offset = offset + 1

"""One record of the topic `_schemas`: a key and a value in JSON."""

from __future__ import annotations

from dataclasses import dataclass

GIVEN_IDS = "wirekafka.given-ids"
"""A header with the highest id that was given in each context, as JSON.

The record of a schema that was deleted permanently is compacted away, and with it the only record
that its id was given. Other registries pass over headers.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record to write, or a record that was read; without a value it deletes its key."""

    key: bytes
    value: bytes | None
    given_ids: bytes | None = None
    """The header `GIVEN_IDS`, if the record has it."""

"""Decodes the keys and values of a page or a search, within limits of size and time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wirekafka.codec.record import Record
from wirekafka.console.excerpts import Excerpt, Form, Shown, indented
from wirekafka.visible_text import visible

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import DecodedValue, Decoder, SchemaRegistry

MOST_BYTES = 1 << 20
"""Larger keys and values are not decoded."""
PAGE_LIMIT_S = 3.0
"""How long the values of one page may take; the others are shown as they are."""
_LARGEST_JSON_BYTES = 4 << 20
_MOST_FAILING = 1000
_UNUSABLE_FOR_S = 5.0
_LONGEST_REASON = 300
_NO_TIME = "the page has no more time"
ABSENT = object()
"""In place of the decoded value of something that cannot be decoded."""

Headers = Iterable[tuple[str, bytes | None]]


class ValueDecoder:
    """Decodes by the schemas of a registry. Each page and each search has its own.

    Whatever a value or a schema does, the result is a `DecodedValue`, possibly with its error.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        limit_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `limit_s`, the caller limits the time."""
        from wirekafka.client.schema_registry import Decoder

        self._decoder: Decoder = Decoder(registry)
        self._limit_s, self._now_s = limit_s, now_s
        self._spent_s = 0.0
        self._unusable: dict[object, tuple[float, DecodedValue]] = {}
        """The schemas that cannot be parsed, and until when they are not tried again."""
        self.failed = 0
        """How many keys and values name a schema but were not decoded."""

    def shown(
        self, excerpt: Excerpt, most_characters: int, *, is_key: bool, headers: Headers
    ) -> tuple[Shown | None, DecodedValue | None]:
        """The text of a key or value, and the schema that it names, if any.

        There is no text if it was not decoded. The value is not kept: it may be larger by far.
        """
        headers = list(headers)
        if excerpt.is_cut:
            reason = f"larger than {len(excerpt.data) >> 10} KiB"
            return None, self._refused(reason, excerpt.data, is_key, headers)
        if self._limit_s is not None and self._spent_s > self._limit_s:
            return None, self._refused(_NO_TIME, excerpt.data, is_key, headers)
        began_s = self._now_s()
        found = self._of_bytes(excerpt.data, is_key, headers)
        shown = None
        if found is not None and found.error is None:
            shown, error = _text_of(found.value, most_characters)
            found = replace(found, value=None, error=error)
        elif found is not None and found.error is not None:
            found = replace(found, error=found.error[:_LONGEST_REASON])
        self._spent_s += self._now_s() - began_s
        return shown, found

    def plain(self, record: Record, *, is_key: bool) -> Any:
        """The key or value of a record for comparisons: decoded, or parsed as JSON, or ABSENT."""
        data = record.key if is_key else record.value
        found = None if data is None else self._of_bytes(data, is_key, record.headers)
        if found is not None and found.error is None:
            return found.value
        if data is None or len(data) > _LARGEST_JSON_BYTES:
            return ABSENT
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return ABSENT

    def _of_bytes(self, data: bytes, is_key: bool, headers: Headers) -> DecodedValue | None:
        if len(data) > MOST_BYTES:
            return self._refused(f"larger than {MOST_BYTES >> 10} KiB", data, is_key, headers)
        found = self._decoded(data, is_key, headers)
        if found is not None and found.error is not None:
            self.failed += 1
        return found

    def _decoded(self, data: bytes, is_key: bool, headers: Headers) -> DecodedValue | None:
        reference = _reference(data, is_key, headers)
        if reference is None:
            return None
        until_s, known = self._unusable.get(reference, (0.0, None))
        if known is not None and self._now_s() < until_s:
            return known
        try:
            found = self._decoder.decoded(data, is_key=is_key, headers=headers)
        except Exception as error:
            # Parsers of hostile values and schemas: RecursionError, OverflowError, MemoryError, ...
            return self._failure(f"{type(error).__name__}: {error}", data, is_key, headers)
        if found is not None and found.schema is None and len(self._unusable) < _MOST_FAILING:
            self._unusable[reference] = self._now_s() + _UNUSABLE_FOR_S, found
        return found

    def _refused(
        self, reason: str, data: bytes, is_key: bool, headers: Headers
    ) -> DecodedValue | None:
        if _reference(data, is_key, headers) is None:
            return None
        self.failed += 1
        return self._failure(reason, data, is_key, headers)

    def _failure(self, reason: str, data: bytes, is_key: bool, headers: Headers) -> DecodedValue:
        from wirekafka.client.schema_registry import DecodedValue

        kind, number = _reference(data, is_key, headers) or ("id", None)
        return DecodedValue(error=reason, **{kind: number})


def _text_of(value: Any, most_characters: int) -> tuple[Shown | None, str | None]:
    """The start of a value's text, or the reason why it has none."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError) as error:
        return None, f"no JSON: {error}"[:_LONGEST_REASON]
    is_cut = len(text) > most_characters
    # Cut first: lines and spaces are added.
    return Shown(Form.DECODED, visible(indented(text[:most_characters])), is_cut), None


def _reference(data: bytes, is_key: bool, headers: Headers) -> tuple[str, Any] | None:
    """ "id" or "guid", and the id or GUID that a key or value names."""
    from wirekafka.schemas.framing import KEY_SCHEMA_ID, VALUE_SCHEMA_ID, framed

    found = framed(data, KEY_SCHEMA_ID if is_key else VALUE_SCHEMA_ID, headers)
    if found is None:
        return None
    return ("id", found.id) if found.guid is None else ("guid", found.guid)

"""Records as files to download: JSON lines and CSV, with the fields that the commands write."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wirekafka.client.record_fields import CSV_NAMES, text_fields
from wirekafka.console.excerpts import Excerpt, Form
from wirekafka.console.topic_reads import Seen
from wirekafka.console.value_decoder import ValueDecoder
from wirekafka.visible_text import json_text

KEPT_BYTES = 64 << 10
"""How much of each key, value and header a file has."""
_CSV_NAMES = (*CSV_NAMES, "transaction", "problem", "cut")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Starts of cells that spreadsheets take for formulas."""


def json_lines(topic: str, records: Iterable[Seen], decoder: ValueDecoder | None) -> bytes:
    """Each record as a line of JSON; keys and values that name a schema are values of JSON."""
    return b"".join(
        json_text(_fields(topic, seen, decoder, as_text=False)).encode() + b"\n" for seen in records
    )


def csv_table(topic: str, records: Iterable[Seen], decoder: ValueDecoder | None) -> bytes:
    """A line for each record below the names of the columns.

    Texts that a spreadsheet would take for a formula begin with an apostrophe.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV_NAMES)
    writer.writeheader()
    for seen in records:
        fields = _fields(topic, seen, decoder, as_text=True)
        fields["headers"] = json_text(fields["headers"]) if fields["headers"] else ""
        writer.writerow({name: _cell(value) for name, value in fields.items()})
    return file.getvalue().encode(errors="backslashreplace")


WRITERS: dict[str, Callable[[str, Sequence[Seen], ValueDecoder | None], bytes]] = {
    "jsonl": json_lines,
    "csv": csv_table,
}
"""By the end of the file's name."""


def _fields(
    topic: str, seen: Seen, decoder: ValueDecoder | None, *, as_text: bool
) -> dict[str, Any]:
    headers = [(name, None if each is None else each.data) for name, each in seen.headers]

    def part(name: str, excerpt: Excerpt | None) -> dict[str, Any]:
        if excerpt is not None and decoder is not None and not seen.control:
            most = 4 * KEPT_BYTES
            shown, _ = decoder.shown(excerpt, most, is_key=name == "key", headers=headers)
            if shown is not None and shown.form is Form.DECODED and not shown.is_cut:
                value = json.loads(shown.text)
                return {name: json_text(value) if as_text else value}
        return text_fields(name, None if excerpt is None else excerpt.data)

    parts = (seen.key, seen.value, *(each for _, each in seen.headers))
    is_cut = any(each is not None and each.is_cut for each in parts)
    return {
        "topic": topic,
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp": seen.timestamp,
        **part("key", seen.key),
        **part("value", seen.value),
        "headers": [{"name": name, **text_fields("value", data)} for name, data in headers],
        **({"transaction": str(seen.transaction)} if seen.transaction else {}),
        **({"problem": seen.problem} if seen.problem else {}),
        **({"cut": True} if is_cut or len(headers) < seen.header_count else {}),
    }


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return f"'{value}"
    return value

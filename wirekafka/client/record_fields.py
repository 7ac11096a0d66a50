"""The fields of records in files and lines of output: JSON lines and CSV."""

from __future__ import annotations

import base64

CSV_NAMES = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_base64",
    "value",
    "value_base64",
    "headers",
)
"""The columns of a table of records; `timestamp` is in ms, and `headers` is JSON."""


def text_fields(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes as text under `name`, or as base64 under `name_base64` if they are not UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}

"""Parts of a record as they are displayed: shortened, as JSON, text or hexadecimal digits."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from enum import StrEnum
from typing import NamedTuple

from wirekafka.visible_text import visible

_LINE_BYTES = 16
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+')
_BREAK = re.compile(r"\s*\n\s*")
_EDGE_BREAK = re.compile(r"(?<=[{\[])\s*\n\s*|\s*\n\s*(?=[}\]])")
_DEEPEST = 100
_INDENT = "  "


class Form(StrEnum):
    """How bytes are displayed; AUTO chooses a fitting form."""

    AUTO = "auto"
    DECODED = "decoded"
    """By the schema that the bytes name; chosen by AUTO where there is a registry."""
    JSON = "json"
    TEXT = "text"
    HEX = "hex"


class Excerpt(NamedTuple):
    """The first bytes of a key, a value or a header, and the size of the whole."""

    data: bytes
    size_bytes: int

    @property
    def is_cut(self) -> bool:
        return len(self.data) < self.size_bytes


class Shown(NamedTuple):
    """Text to display, in the form that was chosen; AUTO is never among them."""

    form: Form
    text: str
    is_cut: bool = False


def excerpt_of(data: bytes | None, kept_bytes: int) -> Excerpt | None:
    """The first `kept_bytes`; None for null."""
    return None if data is None else Excerpt(bytes(data[:kept_bytes]), len(data))


def show(excerpt: Excerpt, form: Form = Form.AUTO) -> Shown:
    """The excerpt in a form, or in another form if this one cannot show it."""
    if form in (Form.AUTO, Form.JSON) and not excerpt.is_cut:
        found = _json_of(excerpt.data)
        if found is not None:
            return Shown(Form.JSON, found)
    if form is not Form.HEX:
        text = _text_of(excerpt)
        if text is not None and (form is not Form.AUTO or _is_readable(text)):
            return Shown(Form.TEXT, visible(text), excerpt.is_cut)
    if form is Form.TEXT:
        text = excerpt.data.decode(errors="backslashreplace")
        return Shown(Form.TEXT, visible(text), excerpt.is_cut)
    return Shown(Form.HEX, _hex_of(excerpt.data), excerpt.is_cut)


def _json_of(data: bytes) -> str | None:
    """An object or an array, indented; None for anything else."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return visible(indented(text))


def indented(text: str) -> str:
    """Valid JSON, or its start, with a line for each member; strings and numbers as written."""
    parts: list[str] = []
    depth = 0
    pieces = _PIECE.findall(text)
    for at, piece in enumerate(pieces):
        following = pieces[at + 1] if at + 1 < len(pieces) else ""
        if piece in "{[":
            parts.append(piece)
            depth += 1
            if following not in ("}", "]"):
                parts.append(_new_line(depth))
        elif piece in "}]":
            depth -= 1
            if pieces[at - 1] not in ("{", "["):
                parts.append(_new_line(depth))
            parts.append(piece)
        elif piece == ",":
            parts.append("," + _new_line(depth))
        else:
            parts.append(": " if piece == ":" else piece)
    return "".join(parts)


def compact(text: str) -> str:
    """Indented JSON, or its start, on one line."""
    return _BREAK.sub(" ", _EDGE_BREAK.sub("", text))


def readable(data: bytes) -> str:
    """Bytes on one line: printable characters of UTF-8 as they are, other bytes as `\\x1f`."""
    text = data.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else _escape(ord(each)) for each in text)


def _escape(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _new_line(depth: int) -> str:
    # Deeper levels get no more indentation, or the text would grow with the square of the depth.
    return "\n" + _INDENT * min(depth, _DEEPEST)


def _text_of(excerpt: Excerpt) -> str | None:
    """UTF-8 as text, without a character that the cut has split; None for anything else."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(excerpt.data, final=not excerpt.is_cut)
    except UnicodeDecodeError:
        return None


def _is_readable(text: str) -> bool:
    return all(each in "\n\r\t" or unicodedata.category(each) != "Cc" for each in text)


def _hex_of(data: bytes) -> str:
    """Lines of an offset, 16 bytes, and the ASCII characters among them."""
    lines = []
    for at in range(0, len(data), _LINE_BYTES):
        line = data[at : at + _LINE_BYTES]
        characters = "".join(chr(each) if 32 <= each < 127 else "." for each in line)
        lines.append(f"{at:08x}  {line.hex(' '):{_LINE_BYTES * 3}} {characters}")
    return "\n".join(lines)

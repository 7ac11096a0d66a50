"""Distinguished names of certificates as text, as Java prints them (RFC 2253).

Principals and mapping rules are written in that text, so it must be Java's to the letter: Kafka
takes it from `X500Principal.getName()`.
"""

from __future__ import annotations

from collections.abc import Iterator

_KEYWORDS = {
    b"\x55\x04\x03": "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x09": "STREET",
    b"\x55\x04\x0a": "O",
    b"\x55\x04\x0b": "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
"""The attribute types that RFC 2253 names, by encoded object identifier; other types are
numbers."""

_SEQUENCE, _SET, _OBJECT_IDENTIFIER = 0x30, 0x31, 0x06
_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _UNIVERSAL, _BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E
_STRINGS = frozenset((_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _UNIVERSAL, _BMP))
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANK = " \r"
_LONG_FORM = 0x80
_VERSION = b"\xa0"
"""The tag of the version number, which the oldest certificates lack."""


def subject_of(certificate: bytes) -> bytes:
    """The subject's DER-encoded name in a DER-encoded certificate (X.509). Raises ValueError."""
    _, signed, _ = _element(certificate, 0)
    _, fields, _ = _element(signed, 0)
    at = 0
    if fields[:1] == _VERSION:
        _, _, at = _element(fields, at)
    # Serial number, signature algorithm, issuer, validity.
    for _ in range(4):
        _, _, at = _element(fields, at)
    _, _, end = _element(fields, at)
    return fields[at:end]


def rfc2253(name: bytes) -> str:
    """The text of a DER-encoded name, its most specific part first. Raises ValueError."""
    tag, parts, end = _element(name, 0)
    if tag != _SEQUENCE or end != len(name):
        raise ValueError("not a distinguished name")
    relative = []
    for tag, attributes, _ in _elements(parts):
        if tag != _SET:
            raise ValueError("not a relative distinguished name")
        relative.append("+".join(_attribute(value) for _, value, _ in _elements(attributes)))
    return ",".join(reversed(relative))


def _attribute(encoded: bytes) -> str:
    tag, identifier, at = _element(encoded, 0)
    if tag != _OBJECT_IDENTIFIER:
        raise ValueError("an attribute of a distinguished name without its type")
    whole = encoded[at:]
    tag, value, _ = _element(whole, 0)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or _dotted(identifier)}=#{whole.hex()}"
    # Java reads the bytes of every kind of string as UTF-8, even where they are not.
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.lstrip(_BLANK)
    leading = len(text) - len(inner)
    trailing = len(inner) - len(inner.rstrip(_BLANK)) if inner else 0
    end = len(text) - trailing
    return "".join(
        _escaped_character(character, is_outer=not leading <= at < end)
        for at, character in enumerate(text)
    )


def _escaped_character(character: str, *, is_outer: bool) -> str:
    if character == "\0":
        return "\\00"
    return "\\" + character if is_outer or character in _ESCAPED else character


def _dotted(identifier: bytes) -> str:
    """An object identifier as numbers with dots."""
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & ~_LONG_FORM
        if byte < _LONG_FORM:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    at = 0
    while at < len(data):
        tag, content, at = _element(data, at)
        yield tag, content, at


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """The DER element at a position: its tag, its content, and where it ends."""
    if at + 2 > len(data):
        raise ValueError("a truncated distinguished name")
    tag, size_bytes = data[at], data[at + 1]
    at += 2
    if size_bytes >= _LONG_FORM:
        count = size_bytes - _LONG_FORM
        size_bytes = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + size_bytes > len(data):
        raise ValueError("a truncated distinguished name")
    return tag, data[at : at + size_bytes], at + size_bytes

"""Generates the decode function of a message: straight-line code for one version.

Reads within a frame are not bounds-checked one by one. Fixed-width reads past the buffer raise by
themselves; slices do not, so positions only ever grow, every count is checked against the bytes
left before its loop, and one check at the end detects any slice past the end. The elements of the
whole message are limited, as objects take many times the bytes they are decoded from.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from struct import pack, unpack_from
from typing import Any

from wirekafka.codec.compact import (
    LARGEST_TAG_BYTES,
    MOST_ELEMENTS,
    MOST_TAGS,
    long_bytes,
    long_string,
    skip_tags,
)
from wirekafka.codec.compile import FunctionSource
from wirekafka.codec.schema import FIXED_BYTES, Field, least_bytes
from wirekafka.codec.varint import decode_uvarint

_LEAST_DEFAULT_TAIL = 6
"""The number of fields from which a comparison with their defaults pays."""

Decoder = Callable[[Any, int, int], tuple[Any, int]]


def compile_decoder(cls: type[Any], version: int, flexible: bool) -> Decoder:
    """Generate the function `(buffer, position, end) -> (message, position)` of one version.

    It raises MalformedMessage, in time and memory linear in `end - position`.
    """
    return _Writer(cls, version, flexible).write()


def has_records(cls: type[Any]) -> bool:
    """Whether a field of a message, or of its parts, holds record batches."""
    return any(has_records(f.part) if f.part else f.kind == "records" for f in cls.fields)


class _Writer:
    def __init__(self, cls: type[Any], version: int, flexible: bool):
        self.cls = cls
        self.version = version
        self.flexible = flexible
        # Only record batches are worth a view: short fields are read faster from bytes.
        self.views = has_records(cls)
        self.out = FunctionSource(f"{cls.__name__} v{version}")
        self.out.names.update(
            new=object.__new__,
            decode_uvarint=decode_uvarint,
            skip_tags=skip_tags,
            long_string=long_string,
            long_bytes=long_bytes,
            unpack_from=unpack_from,
            malformed=self.out.malformed,
            FAULTS=(IndexError, StructError, ValueError),
        )
        self._run: list[tuple[str, str, str]] = []  # fixed-width reads not yet written

    def write(self) -> Decoder:
        out = self.out
        with out.block("def decode(data, start, end):"):
            with out.block("try:"):
                self._prologue()
                self._struct(self.cls, "message", self._default_tail())
                self._flush()
                out.field = ""
                with out.block("if pos > end:"):
                    out("raise ValueError(f'cut short by {pos - end} bytes')")
                out(f"return message, pos{'' if self.views else ' + start'}")
            with out.block("except FAULTS as fault:"):
                out("raise malformed(fault) from fault")
        return out.compile("decode")

    def _prologue(self) -> None:
        out = self.out
        if self.views:
            with out.block("if data.__class__ is not memoryview:"):
                out("data = memoryview(data)")
            out("pos = start")
        else:
            out("data = bytes(data[start:end])")
            out("pos = 0")
            out("end -= start")
        out(f"left = {MOST_ELEMENTS}")

    def _check_left(self) -> None:
        with self.out.block("if left < 0:"):
            self.out(f"raise ValueError('more than {MOST_ELEMENTS} elements')")

    def _struct(self, cls: type[Any], target: str, tail: tuple[Field, ...] = ()) -> None:
        out = self.out
        out(f"{target} = new({out.bind(cls.__name__, cls)})")
        tagged = []
        owner = out.field
        for index, f in enumerate(cls.fields):
            if f in tail[:2]:
                # Again after the first of them, which static members send.
                self._all_defaults(tail[tail.index(f) :], cls.fields[index:], target)
            out.field = f"{owner}.{f.name}" if owner else f.name
            if self.version not in f.versions:
                self._default(f, target)
            elif f.is_tagged(self.version):
                self._default(f, target)
                tagged.append(f)
            elif f.is_fixed:
                self._read(str(f.kind), f"{target}.{f.name}")
            else:
                self._field(f, f"{target}.{f.name}")
        out.field = owner
        if self.flexible:
            self._tags(tagged, target)

    def _default_tail(self) -> tuple[Field, ...]:
        """The last fields of the message, if many of them are mostly left out, as in heartbeats."""
        if not self.flexible or self.views:
            return ()
        present = [
            f for f in self.cls.fields if self.version in f.versions and not self._is_tagged(f)
        ]
        first = len(present)
        while first and self._default_bytes(present[first - 1]) is not None:
            first -= 1
        tail = tuple(present[first:])
        return tail if len(tail) >= _LEAST_DEFAULT_TAIL else ()

    def _default_bytes(self, f: Field) -> bytes | None:
        """The encoded default of a field; None for a field that rarely has its default."""
        if f.default is None and self.version in f.nullable and self.version in f.flexible:
            return b"\xff" if f.part and not f.is_array else b"\0"
        if f.is_fixed and (f.default is False or f.default == -1):
            return pack(f">{f.kind}", f.default)
        return None

    def _all_defaults(
        self, tail: tuple[Field, ...], fields: tuple[Field, ...], target: str
    ) -> None:
        """Compare the rest of the message with its defaults: less work than reading all fields."""
        self._flush()
        out = self.out
        # The last byte says that there are no tagged fields.
        defaults = b"".join(self._default_bytes(f) or b"" for f in tail) + b"\0"
        with out.block(f"if data[pos:] == {defaults!r}:"):
            for f in fields:
                self._default(f, target)
            out(f"return {target}, end + start")

    def _default(self, f: Field, target: str) -> None:
        value = "[]" if isinstance(f.default, list) else self.out.literal(f.default)
        self.out(f"{target}.{f.name} = {value}")

    def _read(self, kind: str, target: str) -> None:
        self._run.append((kind, target, self.out.field))

    def _flush(self) -> None:
        """Read all pending fixed-width values at once."""
        if not self._run:
            return
        out = self.out
        kinds, targets, fields = zip(*self._run, strict=True)
        owner = out.field
        out.field = ", ".join(filter(None, dict.fromkeys(fields)))
        if kinds == ("B",):
            out(f"{targets[0]} = data[pos]")
        else:
            comma = "," if len(targets) == 1 else ""
            unpack = out.layout("".join(kinds), "unpack_from")
            out(f"{', '.join(targets)}{comma} = {unpack}(data, pos)")
        out.field = owner
        out(f"pos += {sum(FIXED_BYTES.get(kind, 1) for kind in kinds)}")
        self._run.clear()

    def _field(self, f: Field, target: str) -> None:
        nullable = self.version in f.nullable
        compact = self.flexible and self.version in f.flexible
        if f.is_array:
            self._array(f, target, nullable, compact)
        elif f.part:
            self._part(f.part, target, nullable, least=self._is_tagged(f))
        elif f.kind in FIXED_BYTES:
            self._read(str(f.kind), target)
            self._flush()
        elif compact:
            self._compact_value(str(f.kind), target, nullable)
        else:
            self._plain_value(str(f.kind), target, nullable)

    def _is_tagged(self, f: Field) -> bool:
        return f.tag is not None and self.version in f.tagged

    def _part(self, part: type[Any], target: str, nullable: bool, least: int) -> None:
        """Decode a part.

        A nullable part that is present follows a byte of at least `least`. Kafka writes -1 for
        null, but 0 where the field is tagged.
        """
        out = self.out
        local = out.fresh("part")
        if not nullable:
            self._struct(part, local)
            self._flush()
            out(f"{target} = {local}")
            return
        marker = out.fresh("marker")
        self._read("b", marker)
        self._flush()
        with out.block(f"if {marker} < {int(least)}:"):
            out(f"{target} = None")
        with out.block("else:"):
            self._struct(part, local)
            self._flush()
            out(f"{target} = {local}")

    def _array(self, f: Field, target: str, nullable: bool, compact: bool) -> None:
        out = self.out
        count = out.fresh("count")
        self._read("B" if compact else "i", count)
        self._flush()
        if compact:
            with out.block(f"if {count} > 127:"):
                out(f"{count}, pos = decode_uvarint(data, pos - 1)")
            out(f"{count} -= 1")
        least = self._least_bytes_of_element(f)
        each = f"{count} * {least}" if least > 1 else count
        with out.block(f"if {each} > end - pos:"):
            out(f"raise ValueError(f'{{{count}}} elements in {{end - pos}} bytes')")
        with out.block(f"if {count} >= 0:"):
            out(f"left -= {count}")
            self._check_left()
            self._elements(f, target, count, compact)
        if nullable:
            with out.block(f"elif {count} == -1:"):
                out(f"{target} = None")
        with out.block("else:"):
            out(f"raise ValueError(f'{{{count}}} elements')")

    def _least_bytes_of_element(self, f: Field) -> int:
        if f.part:
            return max(1, least_bytes(f.part.fields, self.version, self.flexible))
        fallback = 1 if self.flexible else 2 if f.kind == "string" else 4
        return FIXED_BYTES.get(str(f.kind), fallback)

    def _elements(self, f: Field, target: str, count: str, compact: bool) -> None:
        out = self.out
        if f.kind in FIXED_BYTES and f.kind != "16s":
            out(f"{target} = list(unpack_from(f'>{{{count}}}{f.kind}', data, pos))")
            out(f"pos += {count} * {FIXED_BYTES[str(f.kind)]}")
            return
        items, item = out.fresh("items"), out.fresh("item")
        out(f"{target} = {items} = []")
        with out.block(f"while {count}:"):
            out(f"{count} -= 1")
            if f.part:
                self._struct(f.part, item)
            elif f.kind in FIXED_BYTES:
                self._read(str(f.kind), item)
            elif compact:
                self._compact_value(str(f.kind), item, False)
            else:
                self._plain_value(str(f.kind), item, False)
            self._flush()
            out(f"{items}.append({item})")

    def _compact_value(self, kind: str, target: str, nullable: bool) -> None:
        """A string, bytes or records: an unsigned varint of its size + 1, 0 for null."""
        out = self.out
        size = out.fresh("size")
        self._read("B", size)
        self._flush()
        if kind == "records":
            self._records(size, target, nullable)
            return
        with out.block(f"if 0 < {size} < 128:"):
            out(f"stop = pos + {size} - 1")
            out(f"{target} = {self._slice(kind)}")
            out("pos = stop")
        with out.block(f"elif {size}:"):
            out(f"{target}, pos = long_{kind}(data, pos - 1)")
        with out.block("else:"):
            out(f"{target} = None" if nullable else "raise ValueError('null')")

    def _records(self, size: str, target: str, nullable: bool) -> None:
        """As other compact values; the varint is inlined, as it mostly has two or three bytes."""
        out = self.out
        with out.block(f"if {size} > 127:"):
            out("byte = data[pos]")
            out("pos += 1")
            out(f"{size} += (byte << 7) - 128")
            with out.block("if byte > 127:"):
                out("byte = data[pos]")
                out("pos += 1")
                out(f"{size} += (byte << 14) - 16384")
                with out.block("if byte > 127:"):
                    out(f"{size}, pos = decode_uvarint(data, pos - 3)")
        with out.block(f"if {size}:"):
            out(f"stop = pos + {size} - 1")
            out(f"{target} = data[pos:stop]")
            out("pos = stop")
        with out.block("else:"):
            out(f"{target} = None" if nullable else "raise ValueError('null')")

    def _plain_value(self, kind: str, target: str, nullable: bool) -> None:
        """A string with an int16 size, bytes or records with an int32 one; -1 for null."""
        out = self.out
        size = out.fresh("size")
        self._read("h" if kind == "string" else "i", size)
        self._flush()
        with out.block(f"if {size} >= 0:"):
            out(f"stop = pos + {size}")
            out(f"{target} = {self._slice(kind)}")
            out("pos = stop")
        if nullable:
            with out.block(f"elif {size} == -1:"):
                out(f"{target} = None")
        with out.block("else:"):
            out(f"raise ValueError(f'length {{{size}}}')")

    def _slice(self, kind: str) -> str:
        copied = self.views and kind != "records"
        part = "data[pos:stop].tobytes()" if copied else "data[pos:stop]"
        return f"{part}.decode()" if kind == "string" else part

    def _tags(self, tagged: list[Field], target: str) -> None:
        """Tagged fields (KIP-482): ascending tags, each with its size; unknown ones skipped."""
        out = self.out
        count = out.fresh("tags")
        self._read("B", count)
        self._flush()
        if not tagged:
            with out.block(f"if {count}:"):
                stop = out.fresh("stop")
                out(f"{count}, {stop} = decode_uvarint(data, pos - 1)")
                out(f"left -= {count}")
                self._check_left()
                out("pos = skip_tags(data, pos - 1, end)")
            return
        tag, last, size, stop = (out.fresh(n) for n in ("tag", "last", "size", "stop"))
        with out.block(f"if {count}:"):
            with out.block(f"if {count} > 127:"):
                out(f"{count}, pos = decode_uvarint(data, pos - 1)")
            with out.block(f"if {count} > {MOST_TAGS}:"):
                out(f"raise ValueError('more than {MOST_TAGS} tagged fields')")
            out(f"left -= {count}")
            self._check_left()
            out(f"{last} = -1")
            with out.block(f"while {count}:"):
                out(f"{count} -= 1")
                self._tag_head(tag, size)
                out(f"{stop} = pos + {size}")
                with out.block(
                    f"if {tag} <= {last} or {stop} > end or {size} > {LARGEST_TAG_BYTES}:"
                ):
                    out(f"raise ValueError(f'tag {{{tag}}} of {{{size}}} bytes after {{{last}}}')")
                out(f"{last} = {tag}")
                self._tag_cases(tagged, target, tag, stop)

    def _tag_head(self, tag: str, size: str) -> None:
        for name in (tag, size):
            self.out(f"{name} = data[pos]")
            self.out("pos += 1")
            with self.out.block(f"if {name} > 127:"):
                self.out(f"{name}, pos = decode_uvarint(data, pos - 1)")

    def _tag_cases(self, tagged: list[Field], target: str, tag: str, stop: str) -> None:
        out = self.out
        owner = out.field
        for index, f in enumerate(tagged):
            with out.block(f"{'el' if index else ''}if {tag} == {f.tag}:"):
                out.field = f"{owner}.{f.name}" if owner else f.name
                self._field(f, f"{target}.{f.name}")
                with out.block(f"if pos != {stop}:"):
                    out(f"raise ValueError(f'tagged size is off by {{pos - {stop}}} bytes')")
                out.field = owner
        with out.block("else:"):
            out(f"pos = {stop}")

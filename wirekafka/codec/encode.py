"""Generates the encode function of a message: straight-line code for one version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct as Layout
from struct import error as StructError
from struct import pack
from typing import Any

from wirekafka.codec.compact import put_long_string
from wirekafka.codec.compile import FunctionSource
from wirekafka.codec.schema import FIXED_BYTES, Field
from wirekafka.codec.varint import encode_uvarint

Buffer = bytes | bytearray | memoryview
_BUFFERS = frozenset((bytes, bytearray, memoryview))
Encoder = Callable[[Any, list[Buffer], bytearray], bytearray]

_COPIED_BYTES = 2048
"""Record buffers up to this size in bytes are copied: another buffer costs the kernel more than the
copy."""

_int32 = Layout(">i").pack


def compile_encoder(cls: type[Any], version: int, flexible: bool) -> Encoder:
    """Generate the function `(message, chunks, head) -> head` of one version.

    It appends to `head`. At a record buffer above `_COPIED_BYTES` it moves `head` and the buffer,
    uncopied, to `chunks` and continues in a new bytearray. The returned bytearray is to be sent
    after `chunks`. Fields the version lacks are left out. Raises UnencodableMessage, with `chunks`
    and `head` partly written.
    """
    return _Writer(cls, version, flexible).write()


def _put_records(chunks: list[Buffer], head: bytearray, records: Any) -> bytearray:
    if records.__class__ in _BUFFERS:
        head += _int32(len(records))
        return _put_buffers(chunks, head, (records,))
    buffers, size = _buffers_of(records)
    head += _int32(size)
    return _put_buffers(chunks, head, buffers)


def _put_compact_records(chunks: list[Buffer], head: bytearray, records: Any) -> bytearray:
    if records.__class__ in _BUFFERS:
        buffers: Sequence[Buffer] = (records,)
        size = len(records)
    else:
        buffers, size = _buffers_of(records)
    size += 1
    while size > 127:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return _put_buffers(chunks, head, buffers)


def _buffers_of(records: Any) -> tuple[Sequence[Buffer], int]:
    if isinstance(records, list | tuple):
        return records, sum(map(len, records))
    return records.buffers(), records.size_bytes


def _put_buffers(chunks: list[Buffer], head: bytearray, buffers: Sequence[Buffer]) -> bytearray:
    put = head
    for buffer in buffers:
        if len(buffer) <= _COPIED_BYTES:
            put += buffer
            continue
        if put:
            chunks.append(put)
            put = bytearray()
        chunks.append(buffer)
    return put


class _Writer:
    def __init__(self, cls: type[Any], version: int, flexible: bool):
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.out = FunctionSource(f"{cls.__name__} v{version}")
        self.out.names.update(
            encode_uvarint=encode_uvarint,
            put_long_string=put_long_string,
            pack=pack,
            put_records=_put_records,
            put_compact_records=_put_compact_records,
            unencodable=self.out.unencodable,
            FAULTS=(StructError, AttributeError, TypeError, ValueError, OverflowError),
        )
        self._run: list[tuple[str, str, str]] = []  # fixed-width values not yet written

    def write(self) -> Encoder:
        out = self.out
        with out.block("def encode(message, chunks, head):"):
            with out.block("try:"):
                self._struct(self.cls, "message")
                self._flush()
                out("return head")
            with out.block("except FAULTS as fault:"):
                out("raise unencodable(fault) from fault")
        return out.compile("encode")

    def _struct(self, cls: type[Any], source: str) -> None:
        out = self.out
        owner = out.field
        tagged = []
        for f in cls.fields:
            out.field = f"{owner}.{f.name}" if owner else f.name
            if self.version not in f.versions:
                continue
            if f.is_tagged(self.version):
                tagged.append(f)
            else:
                self._field(f, f"{source}.{f.name}")
        out.field = owner
        if self.flexible:
            self._tags(sorted(tagged, key=lambda f: f.tag or 0), source)

    def _pack(self, kind: str, value: str) -> None:
        self._run.append((kind, value, self.out.field))

    def _flush(self) -> None:
        """Write all pending fixed-width values at once; a pad byte `x` is a constant 0."""
        if not self._run:
            return
        out = self.out
        kinds, values, fields = zip(*self._run, strict=True)
        owner = out.field
        out.field = ", ".join(filter(None, dict.fromkeys(fields)))
        if kinds == ("x",):
            out("head.append(0)")
        else:
            pack = out.layout("".join(kinds), "pack")
            out(f"head += {pack}({', '.join(filter(None, values))})")
        out.field = owner
        self._run.clear()

    def _field(self, f: Field, source: str) -> None:
        nullable = self.version in f.nullable
        compact = self.flexible and self.version in f.flexible
        if f.is_fixed:
            self._fixed(str(f.kind), source)
        elif f.is_array:
            self._array(f, source, nullable, compact)
        elif f.part:
            is_tagged = f.tag is not None and self.version in f.tagged
            self._part(f.part, source, nullable, null=0 if is_tagged else 255)
        else:
            self._value(str(f.kind), source, nullable, compact)

    def _fixed(self, kind: str, source: str) -> None:
        if kind == "16s":
            with self.out.block(f"if len({source}) != 16:"):
                self.out(f"raise ValueError(f'uuid of {{len({source})}} bytes')")
        self._pack(kind, source)

    def _part(self, part: type[Any], source: str, nullable: bool, null: int) -> None:
        out = self.out
        local = out.fresh("part")
        out(f"{local} = {source}")
        if not nullable:
            self._struct(part, local)
            return
        self._flush()
        with out.block(f"if {local} is None:"):
            out(f"head.append({null})")
        with out.block("else:"):
            out("head.append(1)")
            self._struct(part, local)
            self._flush()

    def _array(self, f: Field, source: str, nullable: bool, compact: bool) -> None:
        out = self.out
        items = out.fresh("items")
        out(f"{items} = {source}")
        self._flush()
        if nullable:
            with out.block(f"if {items} is None:"):
                self._null("i", compact)
            with out.block("else:"):
                self._elements(f, items, compact)
        else:
            self._elements(f, items, compact)

    def _elements(self, f: Field, items: str, compact: bool) -> None:
        out = self.out
        if compact:
            out(f"size = len({items}) + 1")
            self._varint("size")
        else:
            out(f"head += {out.layout('i', 'pack')}(len({items}))")
        if f.kind in FIXED_BYTES and f.kind != "16s":
            out(f"head += pack(f'>{{len({items})}}{f.kind}', *{items})")
            return
        item = out.fresh("item")
        with out.block(f"for {item} in {items}:"):
            if f.part:
                self._struct(f.part, item)
            elif f.kind in FIXED_BYTES:
                self._fixed(str(f.kind), item)
            else:
                self._value(str(f.kind), item, False, compact)
            self._flush()

    def _varint(self, name: str) -> None:
        with self.out.block(f"if {name} < 128:"):
            self.out(f"head.append({name})")
        with self.out.block("else:"):
            self.out(f"head += encode_uvarint({name})")

    def _null(self, kind: str, compact: bool) -> None:
        minus_one = {"h": "b'\\xff\\xff'", "i": "b'\\xff\\xff\\xff\\xff'"}[kind]
        self.out("head.append(0)" if compact else f"head += {minus_one}")

    def _value(self, kind: str, source: str, nullable: bool, compact: bool) -> None:
        """A string, bytes or records."""
        out = self.out
        self._flush()
        value = out.fresh("value")
        out(f"{value} = {source}")
        write = {"string": self._string, "bytes": self._bytes, "records": self._records}[kind]
        if nullable:
            with out.block(f"if {value} is None:"):
                self._null("h" if kind == "string" else "i", compact)
            with out.block("else:"):
                write(value, compact)
        else:
            write(value, compact)

    def _string(self, value: str, compact: bool) -> None:
        out = self.out
        out(f"{value} = {value}.encode()")
        if not compact:
            out(f"head += {out.layout('h', 'pack')}(len({value}))")
            out(f"head += {value}")
            return
        out(f"size = len({value}) + 1")
        with out.block("if size < 128:"):
            out("head.append(size)")
            out(f"head += {value}")
        with out.block("else:"):
            out(f"put_long_string(head, {value})")

    def _bytes(self, value: str, compact: bool) -> None:
        out = self.out
        if compact:
            out(f"size = len({value}) + 1")
            self._varint("size")
        else:
            out(f"head += {out.layout('i', 'pack')}(len({value}))")
        out(f"head += {value}")

    def _records(self, value: str, compact: bool) -> None:
        put = "put_compact_records" if compact else "put_records"
        self.out(f"head = {put}(chunks, head, {value})")

    def _tags(self, tagged: list[Field], source: str) -> None:
        """The tagged fields (KIP-482) that are not at their default, by ascending tag."""
        out = self.out
        if not tagged:
            self._pack("x", "")
            return
        self._flush()
        owner = out.field
        tests = [self._is_default(f, f"{source}.{f.name}") for f in tagged]
        with out.block(f"if {' and '.join(tests)}:"):
            out("head.append(0)")
        with out.block("else:"):
            outer, tags, count = out.fresh("outer"), out.fresh("tags"), out.fresh("count")
            out(f"{outer} = head")
            out(f"{tags} = bytearray()")
            out(f"{count} = 0")
            for f, test in zip(tagged, tests, strict=True):
                out.field = f"{owner}.{f.name}" if owner else f.name
                with out.block(f"if not ({test}):"):
                    out("head = bytearray()")
                    self._field(f, f"{source}.{f.name}")
                    self._flush()
                    out(f"{count} += 1")
                    out(f"{tags} += encode_uvarint({f.tag})")
                    out(f"{tags} += encode_uvarint(len(head))")
                    out(f"{tags} += head")
            out.field = owner
            out(f"head = {outer}")
            out(f"head += encode_uvarint({count})")
            out(f"head += {tags}")

    def _is_default(self, f: Field, source: str) -> str:
        """An expression that is true when a tagged field may be left out."""
        if f.default is None:
            return f"{source} is None"
        if isinstance(f.default, list):
            null = f"{source} is not None and " if self.version in f.nullable else ""
            return f"({null}not {source})"
        if f.part is None:
            return f"{source} == {self.out.literal(f.default)}"
        default = self.out.bind("default", f.default)
        # Field by field where possible, as an == of parts costs a call for each response.
        if all(inner.is_fixed for inner in f.part.fields):
            same = " and ".join(
                f"{source}.{inner.name} == {self.out.literal(getattr(f.default, inner.name))}"
                for inner in f.part.fields
            )
        else:
            same = f"{source} == {default}"
        return f"({source} is {default} or {same})"

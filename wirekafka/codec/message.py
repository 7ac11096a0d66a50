"""The message DSL: a class body is the schema, compiled per version to straight-line code.

    class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
        group_id: String
        generation_id: Int32
        member_id: String
        group_instance_id: String | None = field("3+", default=None)

Fields are declared in wire order. A nested struct is a `Part` class in the body, below the fields.
The module needs `from __future__ import annotations`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, cast

from wirekafka.codec.compile import UNSET, MalformedMessage, UnencodableMessage, compile_initializer
from wirekafka.codec.decode import compile_decoder
from wirekafka.codec.encode import Buffer, compile_encoder
from wirekafka.codec.schema import ALWAYS, NEVER, Field, Versions, WireLayout

__all__ = [
    "Bool",
    "Buffer",
    "Bytes",
    "Field",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "MalformedMessage",
    "Message",
    "Part",
    "Records",
    "Request",
    "Response",
    "String",
    "UInt16",
    "UInt32",
    "UnencodableMessage",
    "Uuid",
    "Versions",
    "field",
]

Bool: TypeAlias = Annotated[bool, WireLayout("?", False)]
Int8: TypeAlias = Annotated[int, WireLayout("b", 0)]
Int16: TypeAlias = Annotated[int, WireLayout("h", 0)]
UInt16: TypeAlias = Annotated[int, WireLayout("H", 0)]
Int32: TypeAlias = Annotated[int, WireLayout("i", 0)]
UInt32: TypeAlias = Annotated[int, WireLayout("I", 0)]
Int64: TypeAlias = Annotated[int, WireLayout("q", 0)]
Float64: TypeAlias = Annotated[float, WireLayout("d", 0.0)]
Uuid: TypeAlias = Annotated[bytes, WireLayout("16s", bytes(16))]
String: TypeAlias = Annotated[str, WireLayout("string", "")]
Bytes: TypeAlias = Annotated[bytes, WireLayout("bytes", b"")]
# Decoded: a memoryview into the request's buffer. To encode: that, bytes, a list or tuple of
# buffers, or an object with `.buffers()` and `.size_bytes`, such as a slice of a log.
Records: TypeAlias = Annotated[Any, WireLayout("records", b"")]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Declared:
    versions: str
    default: Any
    tag: int | None
    nullable: str | None
    tagged: str | None
    flexible: str | None


def field(
    versions: str = "0+",
    *,
    default: Any = UNSET,
    tag: int | None = None,
    nullable: str | None = None,
    tagged: str | None = None,
    flexible: str | None = None,
) -> Any:
    """Declare a field's versions, default, tag and nullability, beside its type.

    versions: the versions that have the field; in other versions it decodes to its default.
    default: Kafka's default; without it, the zero of the type, also for a nullable field. tag,
    tagged: it is a tagged field (KIP-482), only in the `tagged` versions if given. nullable: the
    versions that allow null, where `X | None` is not true of all of them. flexible: the versions
    that use compact lengths, if not all flexible versions of the message.
    """
    return _Declared(versions, default, tag, nullable, tagged, flexible)


def _resolve(text: str, namespace: dict[str, Any], module: str) -> tuple[Any, bool, bool]:
    """Parse an annotation `X`, `list[X]` or either `| None`: (X, is_array, nullable)."""
    name, bar, none = text.partition(" | ")
    assert not bar or none == "None", text
    is_array = name.startswith("list[") and name.endswith("]")
    if is_array:
        name = name[len("list[") : -1]
    found = namespace.get(name, vars(sys.modules[module]).get(name))
    assert found is not None, f"{text}: no such type in {module}"
    return found, is_array, bool(bar)


def _zero(kind: Any, wire: WireLayout | None, is_array: bool) -> Any:
    if is_array:
        return []
    return wire.zero if wire else kind._shared_default()


def _read_field(name: str, text: str, namespace: dict[str, Any]) -> Field:
    kind, is_array, can_be_null = _resolve(text, namespace, namespace["__module__"])
    wire = next(iter(getattr(kind, "__metadata__", ())), None)
    assert isinstance(wire, WireLayout) or issubclass(kind, Part), f"{name}: {text}"
    declared = namespace.pop(name, UNSET)
    if not isinstance(declared, _Declared):
        declared = field(default=declared)
    versions = Versions.parse(declared.versions)
    assert can_be_null or declared.nullable is None, f"{name} is not `| None`"
    return Field(
        name=name,
        kind=wire.kind if wire else kind,
        is_array=is_array,
        versions=versions,
        nullable=Versions.parse(declared.nullable or "0+") if can_be_null else NEVER,
        tagged=Versions.parse(declared.tagged) if declared.tagged else versions,
        flexible=Versions.parse(declared.flexible) if declared.flexible else ALWAYS,
        tag=declared.tag,
        default=_zero(kind, wire, is_array) if declared.default is UNSET else declared.default,
    )


class _Schema(type):
    """The metaclass of messages and parts, which parses each class body into `fields`.

    The properties of a message are attributes of the metaclass, because there are fields named
    `key`.
    """

    fields: tuple[Field, ...]
    _key: int | None
    _versions: Versions
    _flexible: Versions
    _decoders: dict[int, Any]
    _encoders: dict[int, Any]
    _default: Any
    _response: _Schema | None

    def __new__(
        meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _Schema:
        if "fields" not in namespace:
            texts = namespace.get("__annotations__", {})
            fields = tuple(_read_field(name, text, namespace) for name, text in texts.items())
            namespace["fields"] = fields
            namespace["__slots__"] = tuple(f.name for f in fields)
            namespace["__init__"] = _first_init
        return super().__new__(meta, name, bases, namespace)

    def __init__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: str | None = None,
        flexible: str = "none",
        answers: _Schema | None = None,
    ):
        super().__init__(name, bases, namespace)
        cls._decoders = {}
        cls._encoders = {}
        cls._default = None
        cls._response = None
        if answers:
            answers._response = cls
            cls._key, cls._versions, cls._flexible = (
                answers._key,
                answers._versions,
                answers._flexible,
            )
        else:
            cls._key = key
            cls._versions = Versions.parse(versions or "none")
            cls._flexible = Versions.parse(flexible)

    @property
    def key(cls) -> int:
        """The API key of a request or response; the type number of a record."""
        assert cls._key is not None, f"{cls.__name__} has no key"
        return cls._key

    @property
    def response(cls) -> Any:
        """The class of the response to a request, which was declared to answer it."""
        assert cls._response is not None, f"{cls.__name__} has no response"
        return cls._response

    @property
    def versions(cls) -> Versions:
        """The versions of the message that exist."""
        return cls._versions

    @property
    def flexible(cls) -> Versions:
        """The versions with compact lengths and tagged fields (KIP-482)."""
        return cls._flexible

    def _shared_default(cls) -> Any:
        """The immutable instance that is the default of fields of this class."""
        if cls._default is None:
            frozen = type(cls)(
                cls.__name__,
                (cls,),
                {
                    "__slots__": (),
                    "fields": cls.fields,
                    "__setattr__": _refuse,
                    "__reduce__": lambda _: (cls._shared_default, ()),
                    "__qualname__": cls.__qualname__,
                    "__module__": cls.__module__,
                },
            )
            default = cast(Any, object).__new__(frozen)
            for f in cls.fields:
                value = () if isinstance(f.default, list) else f.default
                object.__setattr__(default, f.name, value)
            cls._default = default
        return cls._default


def _first_init(self: Any, **values: Any) -> None:
    """Compile the class's `__init__` on first use: many classes are never instantiated."""
    cls = type(self)
    cls.__init__ = compile_initializer(cls.__name__, cls.fields)
    cls.__init__(self, **values)


def _refuse(part: Any, name: str, value: Any) -> None:
    raise AttributeError(f"this default is shared: assign a new {type(part).__name__} instead")


class _Struct(metaclass=_Schema):
    fields: ClassVar[tuple[Field, ...]] = ()
    __slots__ = ()

    if TYPE_CHECKING:
        # Every field may be left out, which `dataclass_transform` cannot say.
        def __init__(self, **values: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        body = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.fields)
        return f"{type(self).__qualname__}({body})"


def _same(one: Any, other: Any) -> bool:
    # A shared default holds () where others hold [].
    return bool(one == other) or (one in ([], ()) and other in ([], ()))


class Part(_Struct):
    """A struct nested in a message. Fields that are not given have Kafka's defaults."""


class Message(_Struct):
    """A message with a decoder and an encoder per version, compiled on first use."""

    @classmethod
    def decoder(cls, version: int) -> Callable[[Buffer, int, int], tuple[Self, int]]:
        """The function `(buffer, position, end) -> (message, position after it)`.

        It raises MalformedMessage, reads nothing beyond `end`, copies at most the bytes
        before it, and creates at most 1,000,000 elements. Whether bytes may be left before `end` is
        up to the caller.
        """
        decode = cls._decoders.get(version)
        if decode is None:
            if version not in cls.versions:
                raise MalformedMessage(f"{cls.__name__} has no version {version}")
            decode = compile_decoder(cls, version, version in cls.flexible)
            cls._decoders[version] = decode
        return cast("Callable[[Buffer, int, int], tuple[Self, int]]", decode)

    @classmethod
    def encoder(cls, version: int) -> Callable[[Self, list[Buffer], bytearray], bytearray]:
        """The function `(message, chunks, head) -> head`, which copies few records.

        The function appends to `head`, small record buffers included. At a larger record buffer it
        moves `head` and the buffer to `chunks` and continues in a new bytearray, which it returns,
        to be sent after `chunks`. Raises UnencodableMessage.
        """
        encode = cls._encoders.get(version)
        if encode is None:
            if version not in cls.versions:
                raise UnencodableMessage(f"{cls.__name__} has no version {version}")
            encode = compile_encoder(cls, version, version in cls.flexible)
            cls._encoders[version] = encode
        return cast("Callable[[Self, list[Buffer], bytearray], bytearray]", encode)

    @classmethod
    def decode(cls, buffer: Buffer, version: int, at: int = 0) -> Self:
        """Decode a message that fills `buffer` from `at` to its end. Raises MalformedMessage."""
        end = len(buffer)
        message, position = cls.decoder(version)(buffer, at, end)
        if position != end:
            raise MalformedMessage(f"{cls.__name__} v{version}: {end - position} bytes follow it")
        return message

    def encode(self, version: int) -> bytes:
        """Encode the whole message. Fields the version lacks are left out.

        Raises UnencodableMessage when a value does not fit its field.
        """
        chunks: list[Buffer] = []
        head = self.encoder(version)(self, chunks, bytearray())
        return b"".join([*chunks, head]) if chunks else bytes(head)


class Request(Message):
    """A request: `class XRequest(Request, key=, versions=, flexible=)`."""


class Response(Message):
    """The response to a request, in its version: `class XResponse(Response, answers=XRequest)`."""

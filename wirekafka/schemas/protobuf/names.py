"""The names of types in Protobuf files, and what a name means where it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf import descriptor_pb2

from wirekafka.schemas.schema import SchemaError

_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ENUM = descriptor_pb2.FieldDescriptorProto.TYPE_ENUM
_SCOPE = None


class TypeNames:
    """All types that a file sees: its own, and what it imports."""

    def __init__(self, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> None:
        self._kinds: dict[str, int | None] = {}
        """Of full names without the first dot; packages and services are scopes, but no types."""
        for file in files:
            for package in scopes(file.package):
                self._kinds.setdefault(package, _SCOPE)
            for enum in file.enum_type:
                self._kinds[joined(file.package, enum.name)] = _ENUM
            for service in file.service:
                self._kinds[joined(file.package, service.name)] = _SCOPE
            for message in file.message_type:
                self._add(file.package, message)

    def resolved(self, name: str, scope: str) -> tuple[str, int]:
        """The full name and the kind of a type, from its name in a scope, the innermost first.

        A name of several parts means what its first part means, as protoc has it.
        """
        if name.startswith("."):
            found = name[1:]
            kind = self._kinds.get(found)
        else:
            found, kind = self._found(name, scope)
        if kind is None:
            raise SchemaError(f"Could not resolve type: {name}")
        return f".{found}", kind

    def _found(self, name: str, scope: str) -> tuple[str, int | None]:
        first = name.split(".", 1)[0]
        for outer in (*scopes(scope), ""):
            if first == name:
                kind = self._kinds.get(joined(outer, name))
                if kind is not None:
                    return joined(outer, name), kind
            elif joined(outer, first) in self._kinds:
                return joined(outer, name), self._kinds.get(joined(outer, name))
        return name, None

    def _add(self, scope: str, message: descriptor_pb2.DescriptorProto) -> None:
        name = joined(scope, message.name)
        self._kinds[name] = _MESSAGE
        for enum in message.enum_type:
            self._kinds[joined(name, enum.name)] = _ENUM
        for nested in message.nested_type:
            self._add(name, nested)


def joined(scope: str, name: str) -> str:
    """A name within a scope; the outermost scope is empty."""
    return f"{scope}.{name}" if scope else name


def scopes(name: str) -> Iterator[str]:
    """A full name and all that it is in: `a.b.c`, `a.b`, `a`."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def written(name: str) -> str:
    """A name without the blanks that may be around its dots."""
    return "".join(name.split())

"""Google's compiler of Protobuf, as an independent judge of descriptors."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import grpc_tools
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.type import date_pb2
from grpc_tools import protoc

WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
COMMON = Path(date_pb2.__file__).parent.parent.parent
"""The folder that has google/type, google/api and others, as source."""


def published_sources() -> dict[str, str]:
    """All .proto files that Google's packages for Python have, by import path."""
    return {
        str(path.relative_to(root)): path.read_text()
        for root in (COMMON, WELL_KNOWN)
        for path in sorted(root.glob("google/**/*.proto"))
    }


def compiled(text: str, others: Mapping[str, str] | None = None) -> FileDescriptorProto | None:
    """The descriptor that protoc makes; None if it refuses the text."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, source in {**(others or {}), "default": text}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        output = root / "descriptors"
        status = protoc.main(
            [
                "protoc",
                *(f"-I{path}" for path in (root, COMMON, WELL_KNOWN)),
                "--retain_options",
                f"--descriptor_set_out={output}",
                "default",
            ]
        )
        if status != 0:
            return None
        found = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
    return plain(found.file[0])


def plain(file: FileDescriptorProto) -> FileDescriptorProto:
    """A descriptor without what follows from the rest of it."""
    text = file.SerializeToString()
    found = FileDescriptorProto.FromString(text)
    found.name = "default"
    for message in found.message_type:
        _plain_message(message)
    for extension in found.extension:
        _plain_field(extension)
    for service in found.service:
        for method in service.method:
            if not method.options.ByteSize():  # `{}` behind a method.
                method.ClearField("options")
    return found


def _plain_message(message: descriptor_pb2.DescriptorProto) -> None:
    for field in (*message.field, *message.extension):
        _plain_field(field)
    for nested in message.nested_type:
        _plain_message(nested)


def _plain_field(field: descriptor_pb2.FieldDescriptorProto) -> None:
    camel_case = re.sub(r"_+(.?)", lambda match: match[1].upper(), field.name)
    if field.json_name == camel_case:
        field.ClearField("json_name")

"""The Protobuf files that schemas may import without a reference."""

from __future__ import annotations

from importlib import import_module

from google.protobuf import descriptor_pb2

_GOOGLE = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context"),
        *("struct", "timestamp", "type", "wrappers"),
    )
} | {
    f"google/type/{name}.proto": f"google.type.{name}_pb2"
    for name in (
        *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr"),
        *("fraction", "interval", "latlng", "localized_text", "money", "month", "phone_number"),
        *("postal_address", "quaternion", "timeofday"),
    )
}
"""The modules of the packages protobuf and googleapis-common-protos that have the files."""

_CONFLUENT = {
    "confluent/meta.proto": """\
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
option go_package = "../confluent";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """\
syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
}
"""The two that Confluent's serializers know: what tags and rules are, and decimal numbers."""


def source(name: str) -> str | None:
    """The source of a file of Confluent's; None for any other."""
    return _CONFLUENT.get(name)


def descriptor(name: str) -> descriptor_pb2.FileDescriptorProto | None:
    """The descriptor of a file of Google's; None for any other."""
    module = _GOOGLE.get(name)
    if module is None:
        return None
    found = descriptor_pb2.FileDescriptorProto()
    import_module(module).DESCRIPTOR.CopyToProto(found)
    return found

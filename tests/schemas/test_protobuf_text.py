"""The text of Protobuf schemas, as Confluent's registry keeps it."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.repetitions import swept
from tests.schemas import protoc
from tests.schemas.protobuf_generator import source_of
from wirekafka.schemas.protobuf.schema import ProtobufSchema, parse
from wirekafka.schemas.schema import Dependency, Format, SchemaError

SOURCE = """
syntax="proto3"; // a comment
package shop;
import public "google/protobuf/timestamp.proto"; import 'google/protobuf/duration.proto';
option java_package = "x"; option (unknown.file) = 1;
enum Top { T0 = 0; T1 = 1 [deprecated = true]; option allow_alias = true; reserved 5; }
message Order { /* another
 */ message Line { string sku = 1; message Deep { option deprecated = true; int32 x = 1; } }
  enum Kind { K0 = 0; }
  oneof choice { string s = 4; Line l = 3; }
  map<string, Line> lines = 6;
  string id = 2 [json_name = "ID", deprecated = true];
  int32 count = 1 [(unknown.option).part = { tags: ["a"] key { name: "b" } }];
  google.protobuf.Timestamp at = 7;
  repeated Kind kinds = 8 [packed = false];
  reserved "old", "ancient"; reserved 20, 15 to 17;
  option deprecated = true;
}
message Nothing {}
service S { rpc Put (stream Order) returns (Nothing) { option deprecated = true; }
  rpc Get (Nothing) returns (stream .shop.Order); }
"""

CANONICAL = """\
syntax = "proto3";
package shop;

import "google/protobuf/duration.proto";
import public "google/protobuf/timestamp.proto";

option java_package = "x";
option (unknown.file) = 1;

message Order {
  reserved "old", "ancient";
  reserved 20, 15 to 17;

  option deprecated = true;

  map<string, Line> lines = 6;
  string id = 2 [
    deprecated = true,
    json_name = "ID"
  ];
  int32 count = 1 [(unknown.option).part = {
    tags: [
      "a"
    ],
    key: {
      name: "b"
    }
  }];
  google.protobuf.Timestamp at = 7;
  repeated Kind kinds = 8 [packed = false];

  oneof choice {
    string s = 4;
    Line l = 3;
  }

  message Line {
    string sku = 1;
  
    message Deep {
      option deprecated = true;
    
      int32 x = 1;
    }
  }
  enum Kind {
    K0 = 0;
  }
}
message Nothing {}
enum Top {
  reserved 5;

  option allow_alias = true;
  T0 = 0;
  T1 = 1 [deprecated = true];
}

service S {
  rpc Put (stream Order) returns (Nothing) {
    option deprecated = true;
  };
  rpc Get (Nothing) returns (stream .shop.Order);
}
"""

NORMALIZED = """\
syntax = "proto3";
package shop;

import "google/protobuf/duration.proto";
import public "google/protobuf/timestamp.proto";

option java_package = "x";
option (unknown.file) = 1;

message Order {
  reserved 15 to 17;
  reserved 20;
  reserved "ancient";
  reserved "old";

  option deprecated = true;

  int32 count = 1 [(unknown.option).part = {
    key: {
      name: "b"
    },
    tags: "a"
  }];
  string id = 2 [
    deprecated = true,
    json_name = "ID"
  ];
  map<string, .shop.Order.Line> lines = 6;
  .google.protobuf.Timestamp at = 7;
  repeated .shop.Order.Kind kinds = 8 [packed = false];

  oneof choice {
    .shop.Order.Line l = 3;
    string s = 4;
  }

  message Line {
    string sku = 1;
  
    message Deep {
      option deprecated = true;
    
      int32 x = 1;
    }
  }
  enum Kind {
    K0 = 0;
  }
}
message Nothing {}
enum Top {
  reserved 5;

  option allow_alias = true;
  T0 = 0;
  T1 = 1 [deprecated = true];
}

service S {
  rpc Put (stream .shop.Order) returns (.shop.Nothing) {
    option deprecated = true;
  };
  rpc Get (.shop.Nothing) returns (stream .shop.Order);
}
"""


def test_source_is_kept_without_comments_in_sections() -> None:
    assert parse(SOURCE).canonical == CANONICAL
    assert parse(CANONICAL).canonical == CANONICAL


def test_normalized_text_is_sorted_and_has_full_names() -> None:
    assert parse(SOURCE).normalized().canonical == NORMALIZED
    assert parse(CANONICAL).normalized() == parse(SOURCE).normalized()
    assert parse(NORMALIZED).normalized().canonical == NORMALIZED


@pytest.mark.parametrize(
    "head, kept, normalized",
    [
        ('syntax = "proto2";\npackage p;\n', 'syntax = "proto2";\npackage p;\n', "package p;\n"),
        ("package p;\n", "package p;\n", "package p;\n"),
        ('syntax = "proto2";\n', 'syntax = "proto2";\n', ""),
    ],
)
def test_text_of_syntax_proto2_says_so_if_the_source_does(
    head: str, kept: str, normalized: str
) -> None:
    body = '\nmessage A {\n  optional string d = 4 [default = "x"];\n\n  extensions 9 to 19;\n}\n'
    extension = "\nextend {} {{\n  optional int32 x = 9;\n}}\n"
    schema = parse(head + body + extension.format("A"))
    assert schema.canonical == kept + body + extension.format("A")
    full_name = ".p.A" if "package" in head else ".A"
    assert schema.normalized().canonical == normalized + body + extension.format(full_name)


def test_entries_of_maps_stay_messages_until_the_text_is_normalized() -> None:
    """Messages have indexes, in which entries count."""
    source = "message A { repeated MEntry m = 1; message MEntry { option map_entry = true;" + (
        " string key = 1; int32 value = 2; } }"
    )
    schema = parse('syntax = "proto3";' + source)
    assert schema.canonical.endswith(
        "  repeated MEntry m = 1;\n\n  message MEntry {\n    option map_entry = true;\n  \n"
        "    string key = 1;\n    int32 value = 2;\n  }\n}\n"
    )
    assert schema.normalized().canonical.endswith("{\n  map<string, int32> m = 1;\n}\n")


def test_serialized_descriptor_becomes_text_with_full_names() -> None:
    """confluent-kafka-python registers descriptors in base64."""
    source = parse('syntax="proto3"; package a.b; message X { Y y = 1; } message Y { X x = 1; }')
    schema = parse(source.serialized())
    assert schema.canonical == (
        'syntax = "proto3";\npackage a.b;\n\nmessage X {\n  .a.b.Y y = 1;\n}\n'
        "message Y {\n  .a.b.X x = 1;\n}\n"
    )
    assert schema.format is Format.PROTOBUF
    assert schema != source and schema.normalized() == source.normalized()
    assert len({schema, parse(schema.canonical)}) == 1


def test_comments_and_names_that_follow_are_no_part_of_a_serialized_descriptor() -> None:
    descriptor = protoc.compiled('syntax = "proto2"; message A { optional string a_b = 1; }')
    descriptor.message_type[0].field[0].json_name = "aB"
    descriptor.source_code_info.location.add(leading_comments="hello")
    descriptor.name, descriptor.syntax = "x.proto", "proto2"
    schema = parse(_encoded(descriptor))
    assert schema.canonical == "\nmessage A {\n  optional string a_b = 1;\n}\n"
    assert parse(schema.canonical).serialized() == schema.serialized()


def test_text_of_a_strange_descriptor_is_refused_or_read_again() -> None:
    descriptor = FileDescriptorProto(name="x", syntax="proto3")
    message = descriptor.message_type.add(name="A", reserved_name=['q" } message B {', "\\"])
    kept = parse(_encoded(descriptor))
    assert "message B {}" not in kept.canonical
    assert parse(kept.canonical) == kept
    option = message.options.uninterpreted_option.add(
        identifier_value="1; } message B { option x = 1"
    )
    option.name.add(name_part="x", is_extension=True)
    assert parse(_encoded(descriptor)).canonical
    option.name[0].name_part = "x) = 1; option (y"
    assert parse(_encoded(descriptor)).canonical
    for _ in range(45):
        message = message.nested_type.add(name="A")
    with pytest.raises(SchemaError, match="nested too deeply"):
        parse(_encoded(descriptor))
    for _ in range(45):
        message = message.nested_type.add(name="A")
    with pytest.raises(SchemaError):
        parse(_encoded(descriptor))


@pytest.mark.parametrize("seed", swept(range(100, 150), every=10))
def test_text_of_a_descriptor_has_the_descriptor(seed: int) -> None:
    """But for the order of fields, of which those of oneofs follow the others."""
    source = parse(source_of(seed))
    schema = parse(source.serialized())
    again = parse(schema.canonical)
    assert again.canonical == schema.canonical
    assert _sorted(again) == _sorted(source)
    assert again.normalized() == source.normalized()
    assert parse(source.canonical).canonical == source.canonical


@pytest.mark.parametrize("name", ["google/api/http.proto", "google/protobuf/descriptor.proto"])
def test_text_of_a_published_file_has_its_descriptor(name: str) -> None:
    sources = protoc.published_sources()
    others = [Dependency(other, text) for other, text in sources.items() if other != name]
    source = parse(sources[name], others)
    schema = parse(source.serialized(), others)
    assert _sorted(parse(schema.canonical, others)) == _sorted(source)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("message {", "Could not parse Protobuf - Syntax error in :1:9: "),
        ('syntax = "proto3";\nmessage A {\n  string x y;\n}', ":3:12: mismatched input 'y'"),
        ('syntax = "proto3";\nmessage A { Missing m = 1; }', "Could not resolve type: Missing"),
        ('import "no.proto"; message A { optional no.X x = 1; }', 'type: no.X (the import "no.pr'),
        ("message A { /* no end", ":1:14: unexpected '*'"),
        ('option x = "no end', ":1:12: unexpected '\"'"),
        ("\x00", "unexpected '\\x00'"),
        ("Ä", "unexpected 'Ä'"),
        ("message A { optional int32 a = 09; }", "no octal number: 09"),
        ("message A { reserved 99999999999; }", "range 99999999999 is not valid"),
        ("enum A { X = 99999999999; }", "number of X is out of range"),
        ('option java_package = "\\U00110000";', "no character"),
        ('edition = "1999";', "edition 1999 is not supported"),
        ("message A { optional int32 a = 1e3; }", ""),
        ("QUJD", ""),
        (
            "message A { optional group G = 1 [deprecated = true] {} }",
            ":1:34: a group has no options",
        ),
    ],
)
def test_refusal_says_where_and_why(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse(text)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "message M {" * 5000 + "}" * 5000,
        "message M {" * 39 + "}" * 39,
        "option x = " + "{ a: " * 30000 + "}" * 30000,
        "message M { optional " + "a." * 3000 + "b c = 1; }",
        "option x = " + "[" * 50000,
        '"' + "\\" * 100000,
        "/*" * 100000,
        "option a = " + '"x" ' * 60000 + ";",
        "x" * (1 << 20) + "x",
        "message M { optional int32 " + "a" * 100000 + " = " + "1" * 5000 + "; }",
        "".join(f"message M{i} {{ optional M{i + 1} m = 1; }}" for i in range(500)),
    ],
    ids=range(11),
)
@pytest.mark.long
def test_hostile_source_ends_in_a_refusal(text: str) -> None:
    try:
        parse(text)
    except SchemaError as refused:
        assert len(str(refused)) < 1000


def test_sources_are_parsed_by_several_threads_at_a_time() -> None:
    sources = [source_of(seed) for seed in range(200, 212)]
    expected = [parse(source).canonical for source in sources]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda source: parse(source).canonical, sources * 2))
    assert found == expected * 2


def _encoded(descriptor: FileDescriptorProto) -> str:
    return base64.b64encode(descriptor.SerializeToString()).decode()


def _sorted(schema: ProtobufSchema) -> FileDescriptorProto:
    file = FileDescriptorProto.FromString(base64.b64decode(schema.serialized()))
    pending = list(file.message_type)
    for message in pending:
        pending += message.nested_type
        names = [oneof.name for oneof in message.oneof_decl]
        for field in message.field:
            if field.HasField("oneof_index"):
                field.oneof_index = sorted(names).index(names[field.oneof_index])
        message.field.sort(key=lambda field: field.number)
        message.oneof_decl.sort(key=lambda oneof: oneof.name)
    return file

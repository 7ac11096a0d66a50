"""Descriptors of Protobuf sources are those of Google's protoc."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.repetitions import swept
from tests.schemas import protoc
from tests.schemas.protobuf_generator import source_of
from wirekafka.schemas.protobuf import files as protobuf_files
from wirekafka.schemas.protobuf.schema import parse
from wirekafka.schemas.schema import Dependency, SchemaError

SOURCES = protoc.published_sources()

WRITTEN = {
    "proto2": """
        syntax = "proto2";
        package a.b;
        message M {
          required string s = 1 [default = "q\\"\\n\\x41" ' and \\101'];
          optional bytes b = 2 [default = "\\000\\377'\\""];
          repeated int32 packed = 3 [packed = true, deprecated = true];
          optional double d1 = 4 [default = 1e10];
          optional double d2 = 5 [default = -inf];
          optional float f1 = 6 [default = 0.1];
          optional double d3 = 7 [default = 1234567.891];
          optional E e = 8 [default = TWO];
          optional bool yes = 9 [default = true];
          optional int64 hexadecimal = 0xA [default = -0x10];
          optional uint64 octal = 013 [default = 0777];
          optional float nan = 12 [default = nan];
          optional group Part = 13 { optional int32 x = 1; }
          oneof choice {
            option (choices) = 5;
            string left = 14;
            group Right = 15 { optional M m = 1; }
          }
          extensions 100 to 199, 300;
          extensions 500 to max [verification = UNVERIFIED];
          reserved 20, 30 to 40, 60 to 60;
          reserved "old", "older";
          extend M { optional string in_m = 100; }
          message Nested { enum E { ZERO = 0; } optional E e = 1; optional .a.b.E other = 2; }
          optional Nested.E nested = 16;
          optional string json = 17 [json_name = "JSON", ctype = CORD];
        }
        enum E { option allow_alias = true; ONE = 1; TWO = 2; UNO = 1; MINUS = -1;
          reserved -5 to -2, 100 to max; reserved "GONE"; }
        extend M { repeated E es = 101; optional group Far = 102 { optional int32 y = 1; } }
        extend google.protobuf.OneofOptions { optional int32 choices = 50001; }
        import "google/protobuf/descriptor.proto";
    """,
    "proto3": """
        syntax = "proto3";
        package p;
        import public "google/protobuf/timestamp.proto";
        import "google/protobuf/any.proto";
        option java_package = "x"  ".y"; option optimize_for = LITE_RUNTIME;
        option java_multiple_files = true;
        message M {
          optional string a = 1;
          string b_c_d = 2;
          oneof o { int32 i = 3; M m = 4; }
          optional M self = 5;
          map<string, M> by_name = 6;
          map<fixed64, google.protobuf.Timestamp> byTime = 7 [deprecated = true];
          optional int32 _odd = 8;
          repeated google.protobuf.Any any = 9;
          message message { string string = 1; }
          M.message optional = 10;
          string _a = 11;
          map<int32, bytes> m_2_x = 12;
        }
        ; message Empty {} enum Open { Z = 0; }
        service S {
          option deprecated = true;
          rpc A (M) returns (stream Empty);
          rpc B (stream .p.M) returns (M.message) { option idempotency_level = IDEMPOTENT; }
        }
    """,
    "scopes": """
        syntax = "proto3";
        package a.a.b;
        message A { message b { message C {} } b.C one = 1; .a.a.b.A.b two = 2; A.b three = 3; }
        message b { A a = 1; a.b.A four = 2; }
    """,
    "options": """
        syntax = "proto3";
        package o;
        import "google/protobuf/descriptor.proto";
        message Rule { string text = 1; repeated int32 n = 2; Rule next = 3; map<string, E> by = 4;
          double d = 5; bytes raw = 6; oneof x { bool flag = 7; } }
        enum E { A = 0; B = 1; }
        extend google.protobuf.FileOptions { Rule file = 50000; repeated string many = 50001; }
        extend google.protobuf.MessageOptions { E e = 50000; float f = 50001; }
        extend google.protobuf.FieldOptions { Rule rule = 50000; sint64 s = 50001; }
        extend google.protobuf.EnumValueOptions { bool b = 50000; }
        extend google.protobuf.MethodOptions { Rule m = 50000; }
        option (file).text = "a"; option (file).next.next = { n: [1, 2] n: 3 flag: true };
        option (many) = "1"; option (o.many) = "2\\t"; option (.o.file).d = -inf;
        message M {
          option (e) = B; option (f) = 1.5;
          string x = 1 [(rule) = { text: "é\\n", by { key: "k" value: B } raw: "\\377" d: 1 },
                        (s) = -5, deprecated = true];
          extend google.protobuf.EnumOptions { string own = 50009; }
          enum In { option (own) = "x"; N = 0 [(o.b) = true]; }
        }
        service S { rpc X (M) returns (M) { option (m) = { next < text: 'q' > }; } }
    """,
    "editions": """
        edition = "2023";
        package e;
        option features.field_presence = IMPLICIT;
        message M { string a = 1; int32 b = 2 [features.field_presence = EXPLICIT];
          repeated int32 c = 3 [features.repeated_field_encoding = EXPANDED];
          map<string, M> d = 4; oneof o { string e = 5; } }
        enum Closed { option features.enum_type = CLOSED; X = 5; }
    """,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_descriptor_of_a_source_is_that_of_protoc(name: str) -> None:
    expected = protoc.compiled(WRITTEN[name])
    assert expected is not None
    found = protobuf_files.read(WRITTEN[name], ()).proto
    if name == "options":  # The parts of an option have another order in its bytes.
        assert _text(found) == _text(expected)
    else:
        assert found == expected


@pytest.mark.parametrize("name", swept(SOURCES, every=15))
def test_descriptor_of_each_file_that_google_publishes_is_that_of_protoc(name: str) -> None:
    others = [Dependency(other, text) for other, text in SOURCES.items() if other != name]
    assert protobuf_files.read(SOURCES[name], others).proto == protoc.compiled(SOURCES[name])


@pytest.mark.parametrize("seed", swept(range(40), every=8))
def test_descriptor_of_a_generated_source_is_that_of_protoc(seed: int) -> None:
    source = source_of(seed)
    expected = protoc.compiled(source)
    assert expected is not None, source
    assert protobuf_files.read(source, ()).proto == expected, source


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('syntax = "proto3"; message A { required string a = 1; }', id="required"),
        pytest.param('syntax = "proto3"; message A { string a = 0; }', id="number 0"),
        pytest.param('syntax = "proto3"; message A { string a = 1; int32 b = 1; }', id="twice"),
        pytest.param('syntax = "proto3"; message A { string a = 1; int32 a = 2; }', id="names"),
        pytest.param('syntax = "proto3"; message A {} message A {}', id="messages"),
        pytest.param('syntax = "proto3"; message A { Missing a = 1; }', id="missing type"),
        pytest.param('syntax = "proto3"; enum A { X = 1; }', id="first number of an enum"),
        pytest.param('syntax = "proto3"; enum A { }', id="empty enum"),
        pytest.param('syntax = "proto3"; message A { oneof x {} }', id="empty oneof"),
        pytest.param('syntax = "proto3"; message A { map<double, string> a = 1; }', id="key"),
        pytest.param(
            'syntax = "proto3"; message A { string a = 1 [default = "x"]; }', id="default"
        ),
        pytest.param('syntax = "proto4"; message A { }', id="syntax"),
        pytest.param("message A { string a = 1; }", id="label"),
        pytest.param('syntax = "proto2"; message A { extensions 5 to 3; }', id="range"),
        pytest.param(
            'syntax = "proto2"; message A { optional int32 a = 1 [default = "x"]; }',
            id="kind of default",
        ),
        pytest.param('syntax = "proto3"; message A { string a = 1 }', id="no semicolon"),
        pytest.param('syntax = "proto3"; package a; package b;', id="packages"),
        pytest.param('syntax = "proto3"; option java_package = 5; message A {}', id="option"),
        pytest.param('syntax = "proto3"; message A { group G = 1 {} }', id="group"),
    ],
)
def test_source_that_protoc_refuses_is_refused(source: str) -> None:
    with pytest.raises(SchemaError):
        parse(source)
    assert protoc.compiled(source) is None


def _text(file: FileDescriptorProto) -> str:
    return parse(base64.b64encode(file.SerializeToString()).decode()).canonical

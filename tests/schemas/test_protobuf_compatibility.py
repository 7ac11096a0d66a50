"""Which changes of Protobuf schemas registries refuse, and with which messages."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.repetitions import swept
from wirekafka.schemas.protobuf.schema import ProtobufSchema, parse
from wirekafka.schemas.schema import Dependency

NUMBERS = ("int32", "int64", "uint32", "uint64", "bool")
GROUPS = (
    *(NUMBERS, ("sint32", "sint64"), ("fixed32", "sfixed32"), ("fixed64", "sfixed64")),
    *(("float",), ("double",), ("string", "bytes")),
)
"""Scalars that read each other's bytes."""
GROUP_OF = {name: index for index, group in enumerate(GROUPS) for name in group}
VALUES: dict[str, Any] = {
    **dict.fromkeys((*NUMBERS, "sint32", "sint64", "fixed32", "sfixed32"), 1),
    **dict.fromkeys(("fixed64", "sfixed64", "float", "double"), 1),
    "bool": True,
    "string": "text",
    "bytes": "dGV4dA==",
}


def source(body: str, package: str = "p", syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; package {package}; {body}'


SMALL = "message A { string a = 1; int32 b = 2; }"


@pytest.mark.parametrize(
    "old, new",
    [
        (SMALL, "message A { string a = 1; int32 b = 2; bool c = 3; optional string d = 4; }"),
        (SMALL, "message A { string a = 1; }"),
        (SMALL, "message A { string a = 1; int32 other = 2; }"),
        (SMALL, "message A { string a = 1; int32 b = 3; }"),
        (SMALL, "message A { string a = 1; reserved 2; }"),
        (SMALL, 'message A { string a = 1 [json_name = "x"]; int32 b = 2 [deprecated = true]; }'),
        (SMALL, f"{SMALL} message B {{}} enum E {{ X = 0; }}"),
        (SMALL, "message A { oneof k { string a = 1; } int32 b = 2; }"),
        (SMALL, "message A { optional string a = 1; optional int32 b = 2; }"),
        (SMALL, "message A { repeated string a = 1; repeated int32 b = 2; }"),
        ("message A { repeated string a = 1; }", "message A { optional string a = 1; }"),
        ("message A { oneof k { string a = 1; } }", "message A { string a = 1; }"),
        ("message A { oneof k { string a = 1; int32 b = 2; } }", "message A { string a = 1; }"),
        (
            "message A { oneof k { string a = 1; } }",
            "message A { oneof k { string a = 1; int32 b = 2; } }",
        ),
        ("message A { E x = 1; } enum E { Z = 0; }", "message A { int32 x = 1; }"),
        ("message A { E x = 1; } enum E { Z = 0; }", "message A { F x = 1; } enum F { Y = 0; }"),
        ("message A {} enum E { Z = 0; Y = 1; }", "message A {} enum E { Z = 0; }"),
        ("message A { map<string, int32> m = 1; }", "message A { map<string, int64> m = 1; }"),
        ("message A {} message B {}", "message B {} message A {}"),
        (
            "message A { message N { int32 x = 1; } N n = 1; }",
            "message A { message N { int32 x = 1; int32 y = 2; } N n = 1; }",
        ),
        (
            "message A { map<string, int32> m = 1; }",
            "message A { repeated MEntry m = 1; message MEntry { option map_entry = true; "
            "string key = 1; int32 value = 2; } }",
        ),
    ],
)
def test_compatible_changes_have_no_messages(old: str, new: str) -> None:
    assert differences(parse(source(new)), parse(source(old))) == []


@pytest.mark.parametrize(
    "old, new, rule, path",
    [
        (
            "message A { int32 x = 1; }",
            "message A { string x = 1; }",
            "FIELD_SCALAR_KIND_CHANGED",
            "A/1",
        ),
        (
            "message A { map<string, int32> m = 1; }",
            "message A { map<string, string> m = 1; }",
            "FIELD_SCALAR_KIND_CHANGED",
            "A/1",
        ),
        (
            "message A { message N { string x = 1; } N n = 1; }",
            "message A { message N { int32 x = 1; } N n = 1; }",
            "FIELD_SCALAR_KIND_CHANGED",
            "A/N/1",
        ),
        (
            "message A { oneof k { int32 x = 1; } }",
            "message A { oneof k { string x = 1; } }",
            "FIELD_SCALAR_KIND_CHANGED",
            "A/k/1",
        ),
        (
            "message A { string x = 1; } message B {}",
            "message A { B x = 1; } message B {}",
            "FIELD_KIND_CHANGED",
            "A/1",
        ),
        (
            "message A { repeated B x = 1; } message B {}",
            "message A { map<string, B> x = 1; } message B {}",
            "FIELD_KIND_CHANGED",
            "A/1",
        ),
        (
            "message A { B x = 1; } message B {} message C {}",
            "message A { C x = 1; } message B {} message C {}",
            "FIELD_NAMED_TYPE_CHANGED",
            "A/1",
        ),
        ("message A {} message B {}", "message A {}", "MESSAGE_REMOVED", "B"),
        ("message A { message N {} }", "message A {}", "MESSAGE_REMOVED", "A/N"),
        (
            SMALL,
            "message A { oneof k { string a = 1; int32 b = 2; } }",
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
            "A/k",
        ),
        (
            "message A { oneof k { string a = 1; } int32 b = 2; }",
            "message A { oneof k { string a = 1; int32 b = 2; } }",
            "FIELD_MOVED_TO_EXISTING_ONEOF",
            "A/k",
        ),
        (
            "message A { oneof k { string a = 1; int32 b = 2; } }",
            "message A { oneof k { string a = 1; } int32 b = 2; }",
            "ONEOF_FIELD_REMOVED",
            "A/k/2",
        ),
        (
            "message A { optional int32 a = 1; }",
            "message A { repeated int32 a = 1; }",
            "FIELD_NUMERIC_LABEL_CHANGED",
            "A/1",
        ),
    ],
)
def test_incompatible_change_is_named_with_its_path(
    old: str, new: str, rule: str, path: str
) -> None:
    assert kinds(parse(source(new)), parse(source(old))) == [(rule, f"#/{path}")]


def test_change_of_the_package_is_the_only_difference() -> None:
    old, new = parse(source(SMALL, "p")), parse(source(SMALL, "q"))
    assert kinds(new, old) == [("PACKAGE_CHANGED", "#/")]


def test_required_fields_must_stay() -> None:
    old = parse(source("message A { optional string a = 1; }", syntax="proto2"))
    new = parse(
        source("message A { optional string a = 1; required int32 b = 2; }", syntax="proto2")
    )
    assert kinds(new, old) == [("REQUIRED_FIELD_ADDED", "#/A/2")]
    assert kinds(old, new) == [("REQUIRED_FIELD_REMOVED", "#/A/2")]
    required = parse(source("message A { required string a = 1; }", syntax="proto2"))
    assert kinds(required, old) == kinds(old, required) == []


def test_groups_are_compared_as_the_fields_that_they_are() -> None:
    old = parse(
        source("message A { optional group G = 1 { optional int32 x = 1; } }", syntax="proto2")
    )
    without = parse(source("message A {}", syntax="proto2"))
    assert kinds(without, old) == []


def test_imported_message_is_compared_where_a_field_holds_it() -> None:
    """Once, however many fields hold it, and messages that hold each other."""

    def using(other: str) -> ProtobufSchema:
        text = 'syntax = "proto3"; package q; message B { B b = 1; C c = 2; } message C { B b = 1; '
        return parse(
            source('import "q.proto"; message A { q.B x = 1; q.C y = 2; q.D z = 3; }'),
            [Dependency("q.proto", f"{text} {other} x = 5; }} message D {{}} ")],
        )

    assert kinds(using("int32"), using("int64")) == []
    assert sorted(kinds(using("string"), using("int64"))) == [
        *(
            ("FIELD_NAMED_TYPE_CHANGED", f"#/{path}")
            for path in ("A/1", "A/2", "B/1", "B/2", "C/1")
        ),
        ("FIELD_SCALAR_KIND_CHANGED", "#/C/5"),
    ]


def test_message_has_the_words_of_confluents_registry() -> None:
    old, new = "message A { int32 x = 1; }", "message A { string x = 1; }"
    [message] = differences(parse(source(new)), parse(source(old)))
    assert message.replace("{reader}", "new").replace("{writer}", "old") == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path'
        " '#/A/1' in the new schema does not match its kind in the old schema\"}"
    )


@pytest.mark.parametrize("seed", swept(range(30), every=15))
def test_verdicts_of_generated_pairs_are_those_of_the_rules(seed: int) -> None:
    """3,000 pairs: one mutation each; what was written is read without loss, if it may be."""
    random = Random(seed)
    for _ in range(100):
        mutation = random.choice(MUTATIONS)
        old, new, expected, written, read = mutation(random)
        older, newer = parse(source(old)), parse(source(new))
        assert kinds(newer, older) == expected, (old, new)
        if written is not None:
            assert newer.decoded(older.encoded(written)) == read, (old, new)


Mutated = tuple[str, str, list[tuple[str, str]], Any, Any]


def _scalar(random: Random) -> Mutated:
    old, new = random.choice([*GROUP_OF]), random.choice([*GROUP_OF])
    number = random.randint(1, 1000)
    label = random.choice(("", "repeated ", "optional "))
    expected = [("FIELD_SCALAR_KIND_CHANGED", f"#/A/{number}")]
    fits = GROUP_OF[old] == GROUP_OF[new]
    written, read = VALUES[old], _as(new)
    if label == "repeated ":
        written, read = [written], [read]
    return (
        f"message A {{ {label}{old} x = {number}; }}",
        f"message A {{ {label}{new} y = {number}; }}",
        [] if fits else expected,
        {"x": written} if fits else None,
        {"y": read},
    )


def _map_value(random: Random) -> Mutated:
    old, new = random.choice([*GROUP_OF]), random.choice([*GROUP_OF])
    fits = GROUP_OF[old] == GROUP_OF[new]
    return (
        f"message A {{ map<string, {old}> x = 1; }}",
        f"message A {{ map<string, {new}> x = 1; }}",
        [] if fits else [("FIELD_SCALAR_KIND_CHANGED", "#/A/1")],
        {"x": {"k": VALUES[old]}} if fits else None,
        {"x": {"k": _as(new)}},
    )


def _enum(random: Random) -> Mutated:
    new = random.choice([*GROUP_OF])
    fits = new in NUMBERS
    return (
        "message A { E x = 1; } enum E { Z = 0; O = 1; }",
        f"message A {{ {new} x = 1; }}",
        [] if fits else [("FIELD_SCALAR_KIND_CHANGED", "#/A/1")],
        {"x": "O"} if fits else None,
        {"x": _as(new)},
    )


def _added_or_removed(random: Random) -> Mutated:
    names = random.sample([*GROUP_OF], 4)
    fields = [f"{name} f{index} = {index + 1};" for index, name in enumerate(names)]
    kept = random.sample(fields, random.randint(1, 3))
    is_removal = random.random() < 0.5
    old, new = (fields, kept) if is_removal else (kept, fields)
    written = {each.split()[1]: VALUES[each.split()[0]] for each in old}
    read = {
        each.split()[1]: _as(each.split()[0]) if each in old else _empty(each.split()[0])
        for each in new
    }
    return f"message A {{ {''.join(old)} }}", f"message A {{ {''.join(new)} }}", [], written, read


def _to_oneof(random: Random) -> Mutated:
    count = random.randint(1, 4)
    fields = [f"int32 f{index} = {index + 1};" for index in range(4)]
    random.shuffle(fields)
    inside, outside = fields[:count], fields[count:]
    return (
        f"message A {{ {''.join(fields)} }}",
        f"message A {{ {''.join(outside)} oneof k {{ {''.join(inside)} }} }}",
        [("MULTIPLE_FIELDS_MOVED_TO_ONEOF", "#/A/k")] if count > 1 else [],
        {inside[0].split()[1]: 5} if count == 1 else None,
        {inside[0].split()[1]: 5, **{each.split()[1]: 0 for each in outside}},
    )


def _in_oneof(random: Random) -> Mutated:
    kept = sorted(random.sample(range(1, 5), random.randint(1, 4)))
    inside = "".join(f"string f{number} = {number};" for number in range(1, 5))
    return (
        f"message A {{ oneof k {{ {inside} }} }}",
        f"message A {{ oneof k {{ {''.join(f'string f{each} = {each};' for each in kept)} }} }}",
        [
            ("ONEOF_FIELD_REMOVED", f"#/A/k/{number}")
            for number in range(1, 5)
            if number not in kept
        ],
        {f"f{kept[0]}": "x"},
        {f"f{kept[0]}": "x"},
    )


def _removed_messages(random: Random) -> Mutated:
    names = [f"M{index}" for index in range(5)]
    kept = random.sample(names, random.randint(1, 5))
    return (
        f"message A {{ {''.join(f'message {name} {{}}' for name in names)} }}",
        f"message A {{ {''.join(f'message {name} {{ bool x = 1; }}' for name in kept)} }}",
        [("MESSAGE_REMOVED", f"#/A/{name}") for name in names if name not in kept],
        None,
        None,
    )


def _kind(random: Random) -> Mutated:
    types = {"M": "MESSAGE", "N": "MESSAGE", "map<string, M>": "MAP", "int32": "", "E": ""}
    old, new = random.choice([*types]), random.choice([*types])
    expected = []
    if types[old] != types[new]:
        expected = [("FIELD_KIND_CHANGED", "#/A/1")]
    elif types[old] == "MESSAGE" and old != new:
        expected = [("FIELD_NAMED_TYPE_CHANGED", "#/A/1")]
    others = "message M {} message N {} enum E { Z = 0; }"
    return (
        f"message A {{ {old} x = 1; }} {others}",
        f"message A {{ {new} x = 1; }} {others}",
        expected,
        None,
        None,
    )


def _label(random: Random) -> Mutated:
    name = random.choice([*GROUP_OF])
    old, new = (random.choice(("optional ", "repeated ", "")) for _ in range(2))
    breaks = {old, new} == {"optional ", "repeated "} and name not in ("string", "bytes")
    return (
        f"message A {{ {old}{name} x = 1; }}",
        f"message A {{ {new}{name} x = 1; }}",
        [("FIELD_NUMERIC_LABEL_CHANGED", "#/A/1")] if breaks else [],
        None,
        None,
    )


MUTATIONS: list[Callable[[Random], Mutated]] = [
    *(_scalar, _map_value, _enum, _added_or_removed, _to_oneof, _in_oneof, _removed_messages),
    *(_kind, _label),
]


def differences(new: ProtobufSchema, old: ProtobufSchema) -> list[str]:
    return list(new.incompatibilities(old))


def kinds(new: ProtobufSchema, old: ProtobufSchema) -> list[tuple[str, str]]:
    return [(each.split('"')[1], each.split("'")[1]) for each in differences(new, old)]


def _as(name: str) -> Any:
    """The value 1 or "text", as JSON of a type."""
    value = VALUES[name]
    is_long = name.endswith("64")
    return str(value) if is_long else float(value) if name in ("float", "double") else value


def _empty(name: str) -> Any:
    if name in ("string", "bytes"):
        return ""
    if name == "bool":
        return False
    return "0" if name.endswith("64") else 0.0 if name in ("float", "double") else 0

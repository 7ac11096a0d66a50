"""Avro schemas: canonical texts, refusals and compatibility, against Java's own library.

Java's Avro comes with PySpark. Confluent's registry parses, prints and compares schemas with it.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compat_tests.java_tools import QUICK
from tests import kafka_jars
from tests.schemas.avro_pairs import Pair, pairs
from tests.schemas.avro_texts import REFERENCES, TEXTS
from wirekafka.schemas.avro import schema as avro_schema
from wirekafka.schemas.avro.schema import AvroSchema
from wirekafka.schemas.schema import Dependency, SchemaError

_SOURCE = Path(__file__).with_name("java") / "avro" / "AvroRules.java"
_SEED = 36
_PAIRS = 4_000
_VERDICTS = 3_000
"""Pairs of which Java parses both: a quarter has a default of a wrong type, or a name twice."""


@cache
def generated_pairs() -> Sequence[Pair]:
    return list(pairs(_SEED, _PAIRS))


@cache
def generated_answers() -> Sequence[Mapping[str, Any]]:
    return answers([pair._asdict() for pair in generated_pairs()])


def answers(questions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What Java's library makes of pairs of schemas, or of single ones."""
    spark = find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    jars = Path(spark.origin).with_name("jars")
    classes = f"{kafka_jars.class_path(jars)}:{kafka_jars.compiled([_SOURCE], jars)}"
    done = subprocess.run(
        [kafka_jars.java(), *QUICK, "-cp", classes, _SOURCE.stem],
        input="\n".join(map(json.dumps, questions)),
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=120,
    )
    found = [json.loads(line) for line in done.stdout.strip("\n").split("\n")]
    assert len(found) == len(questions)
    return found


def test_canonical_texts_and_refusals_of_generated_schemas_are_javas() -> None:
    outcomes: Counter[str] = Counter()
    for pair, answer in zip(generated_pairs(), generated_answers(), strict=True):
        for role, text in pair._asdict().items():
            assert canonical(text) == answer[f"{role}_canonical"], answer
            outcomes["refused" if answer[f"{role}_error"] else "parsed"] += 1
    print(outcomes)
    assert min(outcomes.values()) > 1000


def test_verdicts_reasons_and_places_of_generated_pairs_are_javas() -> None:
    kinds: Counter[str] = Counter()
    for pair, answer in zip(generated_pairs(), generated_answers(), strict=True):
        if "incompatibilities" not in answer:
            continue
        expected = [tuple(each) for each in answer["incompatibilities"]]
        assert reasons(parsed(pair.reader), parsed(pair.writer)) == expected, pair
        kinds["incompatible" if expected else "compatible"] += 1
        kinds.update(kind for kind, _, _ in expected)
    print(kinds)
    assert kinds["compatible"] + kinds["incompatible"] >= _VERDICTS
    assert len(kinds) == 8
    assert min(kinds.values()) > 50


def test_canonical_texts_and_refusals_of_peculiar_texts_are_javas() -> None:
    found = answers([{"reader": text} for text in TEXTS])
    assert {text: canonical(text) for text in TEXTS} == {
        text: answer["reader_canonical"] for text, answer in zip(TEXTS, found, strict=True)
    }


def test_defaults_of_stored_schemas_are_not_checked_as_in_java() -> None:
    found = answers([{"reader": text, "check_defaults": False} for text in TEXTS])
    for text, answer in zip(TEXTS, found, strict=True):
        try:
            own = avro_schema.parse_stored(text).canonical
        except SchemaError:
            own = None
        assert own == answer["reader_canonical"], answer


def test_texts_with_references_are_javas() -> None:
    questions = [{"reader": each.text, "references": each.references} for each in REFERENCES]
    for each, answer in zip(REFERENCES, answers(questions), strict=True):
        assert canonical(each.text, each.references) == answer["reader_canonical"], each


def test_a_type_within_a_referenced_type_is_named_where_java_repeats_its_definition() -> None:
    """Java cannot parse its own text again: the type would be defined twice."""
    reference = (
        '{"type":"record","name":"n.A","fields":'
        '[{"name":"b","type":{"type":"fixed","name":"B","size":2,"p":1}}]}'
    )
    text = '{"type":"record","name":"R","fields":[{"name":"b","type":"n.B"}]}'
    assert canonical(text, [reference]) == text

    [answer] = answers([{"reader": text, "references": [reference]}])
    [again] = answers([{"reader": answer["reader_canonical"], "references": [reference]}])

    assert again["reader_error"] == "SchemaParseException: Can't redefine: n.B"


def canonical(text: str, references: Sequence[str] = ()) -> str | None:
    """The canonical text; None if the schema is refused."""
    try:
        return parsed(text, tuple(references)).canonical
    except SchemaError:
        return None


@cache
def parsed(text: str, references: tuple[str, ...] = ()) -> AvroSchema:
    return avro_schema.parse(text, [Dependency(each, each) for each in references])


def reasons(reader: AvroSchema, writer: AvroSchema) -> Sequence[tuple[str, str, str]]:
    return [(each.kind, each.path, each.message) for each in reader.reasons(writer)]

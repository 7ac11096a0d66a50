"""Avro schemas as Confluent's own Java classes store, normalize and compare them."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Sequence

import pytest

from compat_tests import registry_programs
from tests.repetitions import repetitions
from tests.schemas.avro_pairs import Pair, pairs
from wirekafka.schemas.avro.schema import parse
from wirekafka.schemas.schema import SchemaError

COUNT = repetitions("WIREKAFKA_AVRO_PAIRS", usual=3_000, thorough=100_000)


@pytest.mark.timeout(300)
def test_verdicts_messages_and_texts_are_confluents_for_generated_pairs() -> None:
    generated = list(pairs(7, COUNT))
    differing, incompatible, compared = [], 0, 0
    for pair, answer in zip(generated, confluents(generated), strict=True):
        own = ours(pair)
        if answer == ["refused"]:
            continue  # Avro 1.12, which Confluent's registry 8 has, parses some of these.
        compared += 1
        incompatible += len(own) > 2
        if own != answer:
            differing.append((pair, own, answer))
    assert differing[:3] == [], f"{len(differing)} of {COUNT}"
    assert compared > COUNT * 0.7 and COUNT // 5 < incompatible < COUNT, "both verdicts are there"


def ours(pair: Pair) -> list[str]:
    """The reader's canonical text, its normal form, and the messages, with Java's placeholders."""
    try:
        reader, writer = parse(pair.reader), parse(pair.writer)
    except SchemaError:
        return ["refused"]
    messages = reader.incompatibilities(writer)
    return [
        reader.canonical,
        reader.normalized().canonical,
        *(
            _comparable(each.replace("{reader}", "%s").replace("{writer}", "%s"))
            for each in messages
        ),
    ]


def _comparable(message: str) -> str:
    """A message without its path: Avro 1.11, which these classes use, has none in unions.

    `test_avro_against_java.py` compares paths, with Avro 1.12.
    """
    return re.sub(r"path '[^']*'", "path", message)


def confluents(generated: Sequence[Pair]) -> list[list[str]]:
    lines = "".join(f"{_encoded(pair.reader)} {_encoded(pair.writer)}\n" for pair in generated)
    done = subprocess.run(
        registry_programs.java("AvroVerdicts"),
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    return [
        [word if word == "refused" else _comparable(_decoded(word)) for word in line.split(" ")]
        for line in done.stdout.splitlines()
    ]


def _decoded(word: str) -> str:
    return base64.b64decode(word).decode()


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

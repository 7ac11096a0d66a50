"""Avro in lock step: the same rows and the same failures as one payload at a time."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa
import pytest

from tests.repetitions import repetitions
from tests.tables.typed.avro_generated import AvroGenerator, damaged, is_column, shown
from wirekafka.schemas.avro.schema import parse
from wirekafka.schemas.schema import ValueMismatch
from wirekafka.tables.typed.avro import Avro
from wirekafka.tables.typed.avro_lanes import decode_lanes
from wirekafka.tables.typed.avro_payload import decode_payload
from wirekafka.tables.typed.avro_types import root_record

SEEDS = repetitions("WIREKAFKA_AVRO_SEEDS", usual=30, thorough=2000)


@pytest.mark.long
def test_generated_payloads_have_the_rows_and_failures_of_the_slow_decoder() -> None:
    for seed in range(SEEDS):
        random = Random(seed)
        generator = AvroGenerator(random)
        json_schema = generator.record() if seed % 10 else generator.type(3)
        payloads = [generator.payload(json_schema) for _ in range(random.choice((32, 32, 150)))]
        rate = random.choice((0, 0.05, 1))
        payloads = [damaged(random, each) if random.random() < rate else each for each in payloads]
        if not is_column(json_schema):
            continue
        compare(json_schema, payloads, seed)


def compare(json_schema: object, payloads: list[bytes], seed: object) -> None:
    schema = parse(json.dumps(json_schema))
    record = root_record(schema.root)
    slow, expected, failures = decode_payload(record), [], {}
    for index, payload in enumerate(payloads):
        try:
            expected.append(slow(payload))
        except ValueMismatch as error:
            failures[index] = str(error)
            expected.append(None)
    avro = Avro(schema)
    found = avro.decode(payloads)
    found.rows.validate(full=True)
    assert found.failures == failures, seed
    assert found.rows.type == avro.type
    rows = avro._one_by_one(payloads, range(len(payloads)), {})
    assert shown(found.rows) == shown(rows), seed
    fast, refused = decode_lanes(record)(payloads)
    kept = [each for each in range(len(payloads)) if not refused[each]]
    assert not set(kept) & failures.keys(), seed
    assert shown(fast.take(pa.array(kept, pa.int64()))) == shown(
        rows.take(pa.array(kept, pa.int64()))
    ), seed


def test_well_formed_payloads_are_not_refused() -> None:
    """But maps that have a key twice, and decimals of more than 16 bytes."""
    for seed in range(20):
        random = Random(seed)
        generator = AvroGenerator(random)
        json_schema = generator.record()
        text = json.dumps(json_schema)
        if '"map"' in text or '"decimal"' in text:
            continue
        payloads = [generator.payload(json_schema) for _ in range(100)]
        _, refused = decode_lanes(root_record(parse(text).root))(payloads)
        assert not refused.any(), seed

"""Random transactional requests give the same error codes and logs as on Apache Kafka."""

from __future__ import annotations

import secrets

import pytest

from compat_tests.conftest import RunningBroker
from compat_tests.transaction_script import script, settled
from compat_tests.wire import Wire
from tests.repetitions import repetitions

SEEDS = repetitions("WIREKAFKA_TRANSACTION_SEEDS", usual=30, thorough=200)
PER_TEST = 20


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_transactional_requests_get_the_same_responses_as_from_kafka(
    broker: RunningBroker, apache_kafka: RunningBroker, first: int
) -> None:
    ours, reference = Wire(broker.address), Wire(apache_kafka.address)
    for seed in range(first, first + PER_TEST):
        name = f"{seed}-{secrets.token_hex(3)}"
        actual, expected = settled(ours, name, seed), settled(reference, name, seed)
        for step, mine, kafkas in zip(script(seed), actual, expected, strict=False):
            assert mine == kafkas, f"seed {seed}: {step}"
        assert actual == expected, f"seed {seed}"
    ours.close()
    reference.close()

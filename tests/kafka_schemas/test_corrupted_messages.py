"""Messages of random values whose bytes were changed are decoded or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codec.messages import build, message_versions
from tests.kafka_schemas.message_values import message_values
from tests.repetitions import repetitions
from wirekafka.codec.message import MalformedMessage, Message

EXAMPLES = repetitions("WIREKAFKA_CORRUPTED_MESSAGES", usual=3, thorough=30)
_CASES = list(message_versions())


@pytest.mark.parametrize(
    ("cls", "version"), _CASES, ids=[f"{cls.__name__}-{version}" for cls, version in _CASES]
)
@settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_corrupted_bytes_are_decoded_or_refused(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    values = data.draw(message_values(cls.__name__, version))
    spoiled = bytearray(build(cls, values).encode(version))
    for _ in range(data.draw(st.integers(1, 4))):
        if spoiled:
            at = data.draw(st.integers(0, len(spoiled) - 1))
            spoiled[at] = data.draw(st.sampled_from((0, 1, 2, 127, 128, 254, 255)))
    try:
        message = cls.decode(spoiled, version)
    except MalformedMessage:
        return
    assert cls.decode(message.encode(version), version) == message or _holds_nan(message)


def _holds_nan(message: Any) -> bool:
    return "nan" in repr(message)

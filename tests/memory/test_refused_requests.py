"""A client without rights leaves nothing behind, whatever it names and in whichever request."""

from __future__ import annotations

import secrets

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.memory.heap import holders
from tests.memory.requests import requests_with
from tests.simulation.disk import SimulatedDisk
from wirekafka.bounded_memory import Remembered
from wirekafka.codec.message import UnencodableMessage
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.metrics.measures import Measures


def test_no_name_in_a_refused_request_outlives_its_connection() -> None:
    kafka = InProcessBroker(
        "/data",
        ManualClock(),
        measures=Measures(),
        disk=SimulatedDisk(),
        **{"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"},
    )
    sent, marker = 0, secrets.token_hex(8)
    for request, version in requests_with(marker + "x" * 300):
        try:
            exchange = kafka.begin(request, version, marker, principal="User:nobody")
        except (UnencodableMessage, ConnectionRefusedError):
            continue
        sent += 1
        exchange.abandon()
        del exchange, request
    assert sent > 200
    assert holders(marker, lambda each: isinstance(each, Remembered)) == []
    kafka.stop()

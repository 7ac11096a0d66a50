"""Requests that name very many topics: no topic is compared with all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.apis.share_member import share_fetch_request
from tests.apis.test_authorization import SecuredBroker
from tests.apis.test_fetch import fetch_request
from tests.counted import Comparisons, CountedBytes, CountedText
from tests.in_process import InProcessBroker, now
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.apis.fetch import fetch
from wirekafka.apis.share_fetch import share_fetch
from wirekafka.apis.shared.registry import Call
from wirekafka.errors import Error

_TOPICS = 400
_MOST_COMPARISONS = 20 * _TOPICS


def answer(kafka: InProcessBroker, handler: Callable[..., Any], request: Any, version: int) -> Any:
    """The response to a request whose names and ids count."""
    call = Call(kafka.broker)
    call.version = version
    Comparisons.begin()
    return now(handler(request, call))


def test_a_fetch_of_many_refused_topics() -> None:
    kafka = SecuredBroker(SimulatedDisk())
    names = [CountedText(f"topic-{number}") for number in range(_TOPICS)]
    response = answer(kafka, fetch, fetch_request(*((name, 0, 0) for name in names)), 12)
    errors = {each.error_code for topic in response.responses for each in topic.partitions}
    assert errors == {Error.TOPIC_AUTHORIZATION_FAILED}
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()


def test_a_share_fetch_of_many_topics(tmp_path: Path) -> None:
    kafka = InProcessBroker(tmp_path / "data", ManualClock())
    ids = [CountedBytes(number.to_bytes(16)) for number in range(1, _TOPICS + 1)]
    response = answer(
        kafka, share_fetch, share_fetch_request(dict.fromkeys([(i, 0) for i in ids], ())), 2
    )
    assert [topic.topic_id for topic in response.responses] == ids
    assert Comparisons.made < _MOST_COMPARISONS
    kafka.stop()

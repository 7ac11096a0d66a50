"""What a test writes wrongly is told at once, with what to write instead."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wirekafka import Broker

WRONG: dict[str, tuple[Callable[[Broker], Any], type[Exception], str]] = {
    "unknown API": (lambda b: b.fail("Produces", "REQUEST_TIMED_OUT"), ValueError, "'Produce'"),
    "unknown error": (lambda b: b.fail("Produce", "NOT_LEADER"), ValueError,
                      "'NOT_LEADER_OR_FOLLOWER'"),
    "no error": (lambda b: b.fail("Produce", "NONE"), ValueError, "no error"),
    "no API": (lambda b: b.drop([]), ValueError, "'Produce'"),
    "a topic where there is none": (lambda b: b.drop("Heartbeat", topic="t"), ValueError,
                                    "never match: it names no topic"),
    "a partition where there is none": (lambda b: b.drop("Heartbeat", partition=1), ValueError,
                                        "names no partition"),
    "a group where there is none": (lambda b: b.drop("Produce", group="g"), ValueError,
                                    "names no group"),
    "a transaction where there is none": (lambda b: b.drop("Fetch", transactional_id="x"),
                                          ValueError, "names no transactional_id"),
    "nth=0": (lambda b: b.drop("Fetch", nth=0), ValueError, "nth=1"),
    "times=0": (lambda b: b.drop("Fetch", times=0), ValueError, "leave it out"),
    "probability=2": (lambda b: b.drop("Fetch", probability=2), ValueError, "at most 1"),
    "partition=-1": (lambda b: b.drop("Fetch", partition=-1), ValueError, "from 0"),
    "a negative delay": (lambda b: b.delay("Fetch", -1), ValueError, "negative"),
    "unknown keyword": (lambda b: b.drop("Fetch", topik="t"), TypeError,  # type: ignore[call-arg]
                        "'topic'"),
    "unknown topic": (lambda b: b.records("t"), LookupError, "there are: none"),
    "unknown topic config": (lambda b: b.create_topic("t", retention_msec=1), ValueError,
                             "'retention.ms'"),
    "a string for records": (lambda b: b.produce("t", "v"), TypeError, r"\['v'\]"),
    "no record": (lambda b: b.produce("t", [1]), TypeError, "give a Record"),  # type: ignore[list-item]
    "nobody's member": (lambda b: b.expire_member("g"), LookupError, "no such member"),
    "two coordinators": (lambda b: b.move_coordinator(), ValueError, "name one"),
    "started twice": (lambda b: b.start(), RuntimeError, "runs already"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told(broker: Broker, case: str) -> None:
    do, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        do(broker)


def test_a_rule_that_acted_on_nothing_is_an_error_if_asked_for(broker: Broker) -> None:
    with (pytest.raises(AssertionError, match=r"fail\(Produce, REQUEST_TIMED_OUT\) acted on noth"),
          broker.fail("Produce", "REQUEST_TIMED_OUT", required=True)):
        pass
    with broker.fail("Produce", "REQUEST_TIMED_OUT") as rule:
        pass
    assert rule.hits == 0


def test_an_unknown_config_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'num\.partitions'"):
        Broker(num_partition=3)
    with pytest.raises(ValueError, match=r"log\.retention\.ms"):
        Broker(config={"log.retention.ms": "soon"})


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen at 127\.0\.0\.1:{port}.*port=0"):
            Broker(port=port).start()


def test_a_directory_in_use_is_told(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, pytest.raises(ValueError, match="in use"):
        assert broker.directory == str(tmp_path)
        Broker(tmp_path).start()


@pytest.mark.parametrize("use", [
    lambda b: b.bootstrap_servers, lambda b: b.records("t"), lambda b: b.drop("Fetch"),
    lambda b: list(b.requests), lambda b: b.clock.advance(seconds=1), lambda b: b.crash()])
def test_a_stopped_broker_cannot_be_used(use: Callable[[Broker], Any]) -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="not started"):
        use(broker)
    with broker:
        rule = broker.drop("Fetch")
    broker.stop()
    with pytest.raises(RuntimeError, match="was stopped"):
        use(broker)
    rule.remove()
    with broker:
        assert broker.topics() == {}

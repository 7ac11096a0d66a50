"""Mistakes in a test raise at once, with a message that suggests what to write instead."""

from __future__ import annotations

import asyncio
import gc
import pickle
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.testing.clients import confluent_producer, deliver
from wirekafka import Broker
from wirekafka.server.node import Node
from wirekafka.testing import Record, Rule

WRONG: dict[str, tuple[Callable[[Broker], Any], type[Exception], str]] = {
    "unknown API": (lambda b: b.fail("Produces", "REQUEST_TIMED_OUT"), ValueError, "'Produce'"),
    "unknown error": (
        lambda b: b.fail("Produce", "NOT_LEADER"),
        ValueError,
        "'NOT_LEADER_OR_FOLLOWER'",
    ),
    "an error's number that is none": (
        lambda b: b.fail("Produce", 9999),
        ValueError,
        "no error 9999; name one",
    ),
    "nothing for an error": (
        lambda b: b.fail("Produce", None),  # type: ignore[arg-type]
        TypeError,
        "None is no error: name one",
    ),
    "an API's number": (lambda b: b.drop(0), TypeError, "0 is no API"),  # type: ignore[arg-type]
    "an API's number among others": (
        lambda b: b.drop(["Fetch", 0]),  # type: ignore[list-item]
        TypeError,
        "0 is no API",
    ),
    "topics for a topic": (
        lambda b: b.drop("Fetch", topic=["t"]),  # type: ignore[arg-type]
        TypeError,
        "one name; make a rule for each",
    ),
    "text for a number": (
        lambda b: b.drop("Fetch", partition="0"),  # type: ignore[arg-type]
        TypeError,
        "partition='0' must be a whole number",
    ),
    "text for a time": (
        lambda b: b.delay("Fetch", "1s"),  # type: ignore[arg-type]
        TypeError,
        "seconds='1s' must be a number",
    ),
    "no condition": (
        lambda b: b.drop("Fetch", when=True),  # type: ignore[arg-type]
        TypeError,
        "must be a function of the request",
    ),
    "no error": (lambda b: b.fail("Produce", "NONE"), ValueError, "no error"),
    "no API": (lambda b: b.drop([]), ValueError, "'Produce'"),
    "a topic where there is none": (
        lambda b: b.drop("Heartbeat", topic="t"),
        ValueError,
        "never match: it names no topic",
    ),
    "a partition where there is none": (
        lambda b: b.drop("Heartbeat", partition=1),
        ValueError,
        "names no partition",
    ),
    "a group where there is none": (
        lambda b: b.drop("Produce", group="g"),
        ValueError,
        "names no group",
    ),
    "a transaction where there is none": (
        lambda b: b.drop("Fetch", transactional_id="x"),
        ValueError,
        "names no transactional_id",
    ),
    "nth=0": (lambda b: b.drop("Fetch", nth=0), ValueError, "nth=1"),
    "times=0": (lambda b: b.drop("Fetch", times=0), ValueError, "leave it out"),
    "probability=2": (lambda b: b.drop("Fetch", probability=2), ValueError, "at most 1"),
    "partition=-1": (lambda b: b.drop("Fetch", partition=-1), ValueError, "from 0"),
    "a negative delay": (lambda b: b.delay("Fetch", -1), ValueError, "negative"),
    "unknown keyword": (
        lambda b: b.drop("Fetch", topik="t"),  # type: ignore[call-arg]
        TypeError,
        "'topic'",
    ),
    "unknown topic": (lambda b: b.records("t"), LookupError, "there are: none"),
    "unknown topic config": (
        lambda b: b.create_topic("t", retention_msec=1),
        ValueError,
        "'retention.ms'",
    ),
    "a string for records": (lambda b: b.produce("t", "v"), TypeError, r"\['v'\]"),
    "no record": (lambda b: b.produce("t", [1]), TypeError, "give a Record"),  # type: ignore[list-item]
    "nobody's member": (lambda b: b.expire_member("g"), LookupError, "no such member"),
    "two coordinators": (lambda b: b.move_coordinator(), ValueError, "name one"),
    "a dict for records": (lambda b: b.produce("t", {"k": "v"}), TypeError, r"\[\(key, value\)\]"),
    "one record for records": (
        lambda b: b.produce("t", Record("v")),  # type: ignore[arg-type]
        TypeError,
        r"such as \[Record",
    ),
    "an answer for a condition": (
        lambda b: b.wait_for(True),
        TypeError,  # type: ignore[arg-type]
        "give a function",
    ),
    "a coroutine for a condition": (lambda b: b.wait_for(_never), TypeError, "plain function"),
    "nobody's producer": (lambda b: b.fence_producer("x"), LookupError, "'x' has started"),
    "nobody's coordinator": (
        lambda b: b.move_coordinator(group="g"),
        LookupError,
        "have a client join",
    ),
    "a directory for a snapshot": (
        lambda b: b.restore("/tmp"),  # type: ignore[arg-type]
        TypeError,
        "is no snapshot",
    ),
    "given to another process": (lambda b: pickle.dumps(b), TypeError, "give its bootstrap_serv"),
    "a rule that has ended": (lambda b: _twice(b.drop("Fetch")), RuntimeError, "create a new one"),
    "started twice": (lambda b: b.start(), RuntimeError, "is running already"),
}


async def _never() -> bool:
    return False


def _twice(rule: Rule) -> None:
    with rule:
        pass
    with rule:
        pass


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_raises_an_error_with_a_suggestion(broker: Broker, case: str) -> None:
    do, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        do(broker)


def test_a_rule_that_acted_on_nothing_is_an_error_if_required(broker: Broker) -> None:
    with (
        pytest.raises(AssertionError, match=r"fail\(Produce, REQUEST_TIMED_OUT\) acted on noth"),
        broker.fail("Produce", "REQUEST_TIMED_OUT", required=True),
    ):
        pass
    with broker.fail("Produce", "REQUEST_TIMED_OUT") as rule:
        pass
    assert rule.hits == 0


def test_an_unknown_config_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'num\.partitions'"):
        Broker(num_partition=3)
    with pytest.raises(ValueError, match=r"log\.retention\.ms"):
        Broker(config={"log.retention.ms": "soon"})


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"topics": "orders"}, TypeError, r"\['orders'\]"),
        ({"topics": {"orders": "3"}}, TypeError, r"\{'orders': 3\}"),
        ({"directory": ["orders"]}, TypeError, r"Broker\(topics=\.\.\.\)"),
        ({"directory": __file__}, ValueError, "is a file"),
        ({"log_dirs": "/data"}, ValueError, r"Broker\(directory=\.\.\.\)"),
    ],
)
def test_misused_options_are_refused(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Broker(**options)


def test_an_unknown_host_is_reported_without_advice_about_ports() -> None:
    with pytest.raises(OSError, match=r"cannot listen at no-such-host\.invalid:0") as raised:
        Broker(host="no-such-host.invalid").start()
    assert "port=0" not in str(raised.value)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (lambda request: request.nonsense, "AttributeError: .*nonsense"),
        ("topics", "its own thread|broker's own thread"),
    ],
)
def test_a_condition_that_fails_fails_the_test_and_not_the_client(
    broker: Broker, when: Any, message: str
) -> None:
    broker.create_topic("t")
    asked = (lambda _: broker.topics()) if when == "topics" else when
    rule = broker.drop("Produce", when=asked)
    with pytest.raises(RuntimeError, match=message), rule:
        assert deliver(confluent_producer(broker), "t") is None
    assert len(broker.records("t")) == 1


def test_an_error_has_the_names_that_clients_give_it(broker: Broker) -> None:
    for name in ("NotLeaderOrFollower", "not-leader-or-follower", "NOT_LEADER_OR_FOLLOWER"):
        assert "NOT_LEADER_OR_FOLLOWER" in repr(broker.fail("Produce", name))


def test_states_last_without_a_with_and_may_be_nested(broker: Broker) -> None:
    broker.create_topic("t")
    outer = broker.refuse_connections()
    with broker.refuse_connections():
        pass
    assert not _accepts(broker)
    broker.crash()
    broker.restart()
    assert not _accepts(broker)
    outer.remove()
    outer.remove()
    assert _accepts(broker)
    with broker.disk_full(), broker.disk_full():
        broker.crash()
    broker.restart()
    assert broker.produce("t", ["v"]) == [0]
    broker.disk_full()
    broker.refuse_connections()
    broker.reset()
    assert _accepts(broker) and broker.produce("t", ["v"]) == [0]


def _accepts(broker: Broker) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex((broker.host, broker.port)) == 0


def test_a_wait_in_an_event_loop_that_times_out_is_explained(broker: Broker) -> None:
    async def wait() -> None:
        broker.wait_for(lambda: False, timeout_s=0.01)

    with pytest.raises(TimeoutError, match=r"await asyncio\.to_thread\(broker\.wait_for"):
        asyncio.run(wait())


def test_it_starts_and_stops_in_other_event_loops_than_asyncios() -> None:
    broker = Broker(topics=["t"])
    _play(broker.__aenter__())
    assert broker.topics() == {"t": 1}
    _play(broker.__aexit__(None, None, None))
    assert repr(broker) == "<Broker not running>"


def _play(coroutine: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(StopIteration):
        coroutine.send(None)


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    async def run() -> None:
        async def use() -> None:
            async with broker:
                raise AssertionError("it was cancelled before")

        using = asyncio.create_task(use())
        await asyncio.sleep(0)  # It has begun to start, in a thread.
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using

    before = set(threading.enumerate())
    broker = Broker()
    asyncio.run(run())
    assert repr(broker) == "<Broker not running>" and not Path(broker.directory).exists()
    assert not [each for each in set(threading.enumerate()) - before if each.name == "wirekafka"]


def test_an_unreferenced_broker_is_stopped() -> None:
    broker = Broker().start()
    (thread,) = [
        each
        for each in threading.enumerate()
        if each.name == "wirekafka" and each is broker._engine._thread
    ]
    directory = Path(broker.directory)
    del broker
    gc.collect()
    thread.join(10)
    assert not thread.is_alive() and not directory.exists()


def test_an_unreferenced_brokers_directory_is_removed_after_its_thread_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgotten, found = threading.Event(), []
    abort = Node.abort

    def abort_late(node: Node) -> None:
        forgotten.wait(10)
        found.append(directory.exists())
        abort(node)

    monkeypatch.setattr(Node, "abort", abort_late)
    broker = Broker().start()
    thread, directory = broker._engine._thread, Path(broker.directory)
    del broker
    gc.collect()
    forgotten.set()
    thread.join(10)
    assert found == [True] and not directory.exists()


def test_hits_can_be_read_when_the_broker_has_stopped() -> None:
    with Broker(topics=["t"]) as broker:
        rule = broker.delay("Produce", 0.0)
        assert deliver(confluent_producer(broker), "t") is None
    assert (rule.hits, rule.waiting) == (1, 0)


def test_a_rule_ends_with_the_process_of_its_broker() -> None:
    with Broker(process=True) as broker:
        with broker.drop("Fetch") as old:
            broker.crash()
            broker.restart()
            new = broker.drop("Produce", times=1)
        assert old.hits == 0
        assert deliver(confluent_producer(broker), "t") is None
        assert new.hits == 1


def test_a_process_that_ends_during_its_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", shutil.which("false"))
        with pytest.raises(RuntimeError, match="the broker's process has ended"):
            Broker(process=True).start()
    with Broker(process=True) as broker:
        assert broker.topics() == {}


FORKED = """
import os
from wirekafka import Broker

with Broker(topics=["t"]) as broker:
    if not (child := os.fork()):
        try:
            broker.topics()
        except RuntimeError as error:
            os.write(1, str(error).encode())
        finally:
            broker._remove_scratch()
            os._exit(0)
    os.waitpid(child, 0)
    assert os.path.exists(broker.directory) and broker.topics() == {"t": 1}
"""


def test_a_forked_process_can_neither_use_the_broker_nor_remove_its_data() -> None:
    # In a process of its own: threads of other tests' clients may hold locks when it forks.
    command = [sys.executable, "-c", FORKED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "forked from: connect to its bootstrap_servers" in ended.stdout


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen at 127\.0\.0\.1:{port}.*port=0"):
            Broker(port=port).start()


def test_a_directory_in_use_is_reported(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, pytest.raises(ValueError, match="in use"):
        assert broker.directory == str(tmp_path)
        Broker(tmp_path).start()


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b.bootstrap_servers,
        lambda b: b.records("t"),
        lambda b: b.drop("Fetch"),
        lambda b: list(b.requests),
        lambda b: b.clock.advance(seconds=1),
        lambda b: b.crash(),
    ],
)
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

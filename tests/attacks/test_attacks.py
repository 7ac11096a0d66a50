"""What no client can have a node do, whatever it sends: by each API, as each kind of user.

A part of the attacks, another one in each release; all of them with `WIREKAFKA_ATTACKS=all`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.attacked_node import AttackedNode, Watchdog
from tests.attacks.campaign import Plan, plans, run
from tests.attacks.hostile_values import Baits
from tests.attacks.secured import ATTACKERS, CLIENTS, CONTROLLERS, NONE
from tests.raw_client import frame
from tests.repetitions import is_thorough
from tests.secret_search import SecretSearch, all_logs_searched
from wirekafka.errors import MOST_MESSAGE_CHARACTERS, Error, KafkaError
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.metadata import MetadataRequest

REQUESTS = 12
"""For each version of an API; 30 s of one core in all, and 120 for the whole."""
ONE_IN = 1 if os.environ.get("WIREKAFKA_ATTACKS") == "all" or is_thorough() else 4
METADATA = frozenset({3})


@pytest.mark.parametrize("plan", plans(requests=REQUESTS, one_in=ONE_IN), ids=str)
def test_attackers_get_answers_and_neither_secrets_nor_time_nor_memory(plan: Plan) -> None:
    report = run(plan)
    print(f"{report.sent} requests, {report.longest_held_s * 1000:.0f} ms at the most")
    assert not report.violations, "\n\n".join(report.violations)
    assert report.sent > 1_000


def test_the_same_seed_sends_the_same_requests() -> None:
    counts = [run(Plan(NONE, CLIENTS, seed), METADATA) for seed in (7, 7)]
    first, second = ((each.sent, each.closed, each.waiting) for each in counts)
    assert first == second


def test_every_attacker_is_served_on_every_attacked_listener(node: AttackedNode) -> None:
    for user in ATTACKERS:
        for listener in (CLIENTS, CONTROLLERS):
            assert node.fault(user, listener) == ""


def test_work_that_holds_the_event_loop_is_measured(node: AttackedNode) -> None:
    class Slow:
        def handle(self, *_: object) -> None:
            sum(range(3_000_000))

    connection = node.connect(NONE)
    node.kafka.node.pipeline.hook = Slow()
    outcome = node.send(connection, frame(MetadataRequest(), 1))
    assert outcome.held_s > 0.01


def test_a_secret_in_a_response_is_found(node: AttackedNode) -> None:
    connection = node.connect(NONE)
    outcome = node.send(connection, frame(ApiVersionsRequest(), 0))
    assert node.search.excerpt(outcome.response) == ""
    node.search.add("ApiVersions")
    assert node.search.excerpt(b"of " + outcome.response + b"ApiVersions")


def test_a_thread_that_waits_for_a_fifo_is_released_and_counted(tmp_path: Path) -> None:
    fifo = Baits.laid_in(tmp_path).fifo
    watchdog = Watchdog(fifo, patience_s=0.1)
    with watchdog.watching():
        assert fifo.read_bytes() == b""
    watchdog.stop()
    assert watchdog.hangs == 1


def test_error_messages_that_quote_a_client_fit_into_every_response() -> None:
    error = KafkaError(Error.INVALID_REQUEST, "\U0001f4a5" * 30_000)
    assert error.message is not None
    assert len(error.message) == MOST_MESSAGE_CHARACTERS and error.message.endswith("...")
    assert len(error.message.encode()) < 1 << 15
    assert KafkaError(Error.INVALID_REQUEST, "short").message == "short"


@pytest.fixture
def node(tmp_path: Path):
    search = SecretSearch()
    with all_logs_searched(search) as logs:
        started = AttackedNode(tmp_path, search, logs)
        yield started
        started.close()

"""Requests with thousands of elements, by a client without rights, do not hold the event loop."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random

import pytest

from tests.attacks.attacked_node import MOST_HELD_S, AttackedNode
from tests.attacks.campaign import apis
from tests.attacks.hostile_requests import Attack, Attacks
from tests.attacks.hostile_values import Values
from tests.attacks.secured import CLIENTS, NONE
from tests.secret_search import SecretSearch, all_logs_searched
from wirekafka.apis.shared.registry import Api

ELEMENTS = 8_000
"""Ten to twenty times as many as some handlers could serve within the allowed time."""
_PRODUCE = 0
_TURNS = 1_000
_REPEATS = 3


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedNode]:
    search = SecretSearch()
    before = gc.get_threshold()
    # As in a node: by default, Python looks at all objects each time that there are a fourth more.
    gc.set_threshold(50_000, 50, 50)
    with all_logs_searched(search) as logs:
        logs.is_paused = True
        started = AttackedNode(tmp_path_factory.mktemp("node"), search, logs)
        yield started
        started.close()
    gc.set_threshold(*before)


@pytest.mark.parametrize("api", apis(CLIENTS), ids=lambda api: api.name)
def test_many_elements_in_any_array_hold_the_event_loop_for_a_short_time(
    api: Api, node: AttackedNode
) -> None:
    if api.key == _PRODUCE:
        pytest.skip("the batches of a Produce request are appended in one turn")
    for attack in _attacks(api, node):
        held_s = min(_held(attack, node))
        assert held_s < MOST_HELD_S, f"{attack}: {held_s * 1000:.0f} ms"


def test_a_large_request_that_is_cut_short_closes_the_connection(node: AttackedNode) -> None:
    [api] = [each for each in apis(CLIENTS) if each.name == "DescribeGroups"]
    attack = next(_attacks(api, node))
    connection = node.connect(NONE)
    assert node.send(connection, attack.payload[:-100], _TURNS).is_closed
    assert node.fault(NONE, CLIENTS) == ""


def test_a_client_may_leave_while_its_large_request_is_served(node: AttackedNode) -> None:
    [api] = [each for each in apis(CLIENTS) if each.name == "DescribeGroups"]
    for attack in _attacks(api, node):
        for turns in (1, 5):
            node.send(node.connect(NONE), attack.payload, turns)
            node.hang_up()
    assert node.fault(NONE, CLIENTS) == ""


def _attacks(api: Api, node: AttackedNode) -> Iterator[Attack]:
    values = Values(node.baits, node.topic_ids, node.cluster_id)
    newest = api.request.versions.last
    return Attacks(Random(api.key), values, api.request, newest).with_many(ELEMENTS)


def _held(attack: Attack, node: AttackedNode) -> Iterator[float]:
    """How long a turn took, repeated when it was long: now and then, Python collects garbage."""
    for _ in range(_REPEATS):
        outcome = node.send(node.connect(NONE), attack.payload, _TURNS)
        node.hang_up()
        yield outcome.held_s
        if outcome.held_s < MOST_HELD_S:
            return

"""Requests with thousands of elements, by clients without rights, do not hold the event loop.

One of all arrays in so many, others in each release; all with `WIREKAFKA_ATTACKS=all`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from random import Random

import pytest

from tests.attacks.attacked_node import MOST_HELD_S, AttackedNode
from tests.attacks.campaign import Plan, apis
from tests.attacks.hostile_requests import Attack, Attacks, Path
from tests.attacks.hostile_values import Values
from tests.attacks.secured import ADMIN, CLIENTS, CONTROLLERS, NEIGHBOUR, NONE
from tests.attacks.test_attacks import ONE_IN
from tests.raw_client import frame
from tests.secret_search import SecretSearch, all_logs_searched
from wirekafka.apis.shared.registry import Api
from wirekafka.protocol.envelope import DefaultPrincipalData, EnvelopeRequest
from wirekafka.server.connections.pipeline import LARGE_BYTES

ELEMENTS = 8_000
"""Ten to twenty times as many as some handlers could serve within the allowed time."""
LISTENERS = (CLIENTS, CONTROLLERS)
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


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("user", [NONE, NEIGHBOUR])
def test_many_elements_in_any_array_hold_the_event_loop_for_a_short_time(
    user: str, listener: str, node: AttackedNode
) -> None:
    tried = 0
    for api in apis(listener):
        attacks = _attacks(api, node)
        some = _some(attacks, Plan(user, listener, one_in=ONE_IN))
        tried += _hold_briefly(attacks.with_many(some, ELEMENTS), user, listener, node)
    assert tried


@pytest.mark.parametrize("listener", LISTENERS)
def test_what_fits_into_a_small_request_holds_the_event_loop_for_a_short_time(
    listener: str, node: AttackedNode
) -> None:
    tried = 0
    for api in apis(listener):
        attacks = _attacks(api, node)
        some = _some(attacks, Plan(NONE, listener, one_in=ONE_IN))
        tried += _hold_briefly(attacks.with_small(some, LARGE_BYTES), NONE, listener, node)
    assert tried


def test_many_elements_in_an_envelope_hold_the_event_loop_for_a_short_time(
    node: AttackedNode,
) -> None:
    principal = DefaultPrincipalData(type="User", name=NONE).encode(0)
    plan = Plan(ADMIN, CONTROLLERS, one_in=ONE_IN)
    tried = 0
    for api in apis(CLIENTS):
        if not api.is_forwarded:
            continue
        attacks = _attacks(api, node)
        for attack in attacks.with_many(_some(attacks, plan), ELEMENTS):
            wrapped = EnvelopeRequest(
                request_data=attack.payload,
                request_principal=b"\0\0" + principal,
                client_host_address=bytes((127, 0, 0, 1)),
            )
            payload = frame(wrapped, 0, 1, "a broker")
            reason = f"{attack} in an envelope"
            wrapping = Attack(EnvelopeRequest, 0, payload, reason)
            tried += _hold_briefly([wrapping], ADMIN, CONTROLLERS, node)
    assert tried


def test_a_large_request_that_is_cut_short_closes_the_connection(node: AttackedNode) -> None:
    attack = next(_of_groups(node))
    connection = node.connect(NONE)
    assert node.send(connection, attack.payload[:-100], _TURNS).is_closed
    assert node.fault(NONE, CLIENTS) == ""


def test_a_client_may_leave_while_its_large_request_is_served(node: AttackedNode) -> None:
    for attack in _of_groups(node):
        for turns in (1, 5):
            node.send(node.connect(NONE), attack.payload, turns)
            node.hang_up()
    assert node.fault(NONE, CLIENTS) == ""


def _of_groups(node: AttackedNode) -> Iterator[Attack]:
    [api] = [each for each in apis(CLIENTS) if each.name == "DescribeGroups"]
    attacks = _attacks(api, node)
    return attacks.with_many(attacks.arrays(), ELEMENTS)


def _attacks(api: Api, node: AttackedNode) -> Attacks:
    values = Values(node.baits, node.topic_ids, node.cluster_id)
    return Attacks(Random(api.key), values, api.request, api.request.versions.last)


def _some(attacks: Attacks, plan: Plan) -> list[Path]:
    """The arrays of a request that belong to the part of a plan that is carried out."""
    return [path for path in attacks.arrays() if plan.includes(f"{attacks} {path[-1].name}")]


def _hold_briefly(attacks: Iterable[Attack], user: str, listener: str, node: AttackedNode) -> int:
    """Check how long each attack holds the event loop; returns the number of attacks."""
    tried = 0
    for attack in attacks:
        held_s = min(_held(attack, user, listener, node))
        assert held_s < MOST_HELD_S, f"{user} at {listener}: {attack}: {held_s * 1000:.0f} ms"
        tried += 1
    return tried


def _held(attack: Attack, user: str, listener: str, node: AttackedNode) -> Iterator[float]:
    """How long a turn took, repeated when it was long: now and then, Python collects garbage."""
    for _ in range(_REPEATS):
        outcome = node.send(node.connect(user, listener), attack.payload, _TURNS)
        node.hang_up()
        yield outcome.held_s
        if outcome.held_s < MOST_HELD_S:
            return

"""Placement keeps what Kafka's StripedReplicaPlacer guarantees, whatever its random start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from tests.metadata.cluster import Cluster
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.placement import place

THREE_RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def placed(
    racks: Mapping[int, str | None], count: int, factor: int, fenced: Sequence[int] = ()
) -> list[list[int]]:
    cluster = Cluster(*())
    state = cluster.controller.machine.state
    for id, rack in racks.items():
        cluster.register(id, rack=rack, unfence=id not in fenced)
    for id in set(state.image.brokers) - set(racks):
        del state.image.brokers[id]
    return place(state, count, factor)


@pytest.mark.parametrize("factor", range(1, 7))
def test_no_broker_has_two_replicas_and_all_racks_have_as_many(factor: int) -> None:
    for replicas in placed(THREE_RACKS, 30, factor):
        assert len(set(replicas)) == factor
        used = Counter(THREE_RACKS[broker] for broker in replicas)
        assert max(used.values()) - min(used[rack] for rack in "abc") <= 1


def test_leaders_and_replicas_are_spread_evenly_over_equal_racks() -> None:
    found = placed(THREE_RACKS, 60, 3)
    leaders = Counter(replicas[0] for replicas in found)
    assert max(leaders.values()) - min(leaders.values()) <= 10 and len(leaders) == 6
    by_rack = Counter(THREE_RACKS[replicas[0]] for replicas in found)
    assert max(by_rack.values()) - min(by_rack.values()) <= 10
    everywhere = Counter(broker for replicas in found for broker in replicas)
    assert max(everywhere.values()) - min(everywhere.values()) <= 12


def test_followers_of_one_leader_differ() -> None:
    found = placed({1: None, 2: None, 3: None, 4: None}, 40, 2)
    pairs = {tuple(replicas) for replicas in found}
    assert len(pairs) > 8


def test_a_small_rack_has_a_replica_of_every_partition() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "a", 5: "b"}
    assert all(5 in replicas for replicas in placed(racks, 20, 2))


def test_fenced_brokers_lead_nothing_and_come_last_in_their_rack() -> None:
    racks = {1: "a", 2: "a", 3: "a"}
    for replicas in placed(racks, 12, 2, fenced=[2]):
        assert set(replicas) == {1, 3}
    for replicas in placed(racks, 12, 3, fenced=[2]):
        assert replicas[2] == 2


def test_a_rack_without_unfenced_brokers_leads_nothing() -> None:
    for replicas in placed({1: "a", 2: "b"}, 12, 2, fenced=[2]):
        assert replicas == [1, 2]


@pytest.mark.parametrize(
    ("racks", "fenced", "message"),
    [
        (
            {1: None, 2: None},
            (),
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are "
            "registered or some brokers have all their log directories cordoned.",
        ),
        (
            {1: None, 2: None},
            (1, 2),
            "All brokers are currently fenced, or have all their log directories cordoned.",
        ),
    ],
)
def test_too_few_brokers_are_reported_as_by_kafka(
    racks: Mapping[int, str | None], fenced: Sequence[int], message: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        placed(racks, 1, 3, fenced)
    assert (caught.value.error, caught.value.message) == (Error.INVALID_REPLICATION_FACTOR, message)

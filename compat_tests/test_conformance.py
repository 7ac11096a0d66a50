"""wirekafka answers as Apache Kafka in every case, and Apache Kafka as its recordings say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.cluster import WIREKAFKA
from compat_tests.conformance.clusters import ClusterKind, cluster_of
from tests.repetitions import swept
from wirekafka.config.address import Address
from wirekafka.conformance.cases import all_cases
from wirekafka.conformance.cleaning import clean
from wirekafka.conformance.recordings import RELEASES
from wirekafka.conformance.run import CaseResult, Player, judged_versions, playable
from wirekafka.conformance.target import ClusterUnderTest

NEWEST = RELEASES[-1]
_OURS = [ClusterKind.ONE, ClusterKind.THREE, ClusterKind.SECURED_THREE, ClusterKind.SECURED]
_KAFKAS = [(each, kind) for each in reversed(RELEASES) for kind in ClusterKind]
_FEWEST = 3000


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", swept(_OURS, every=2))
def test_wirekafka_answers_as_apache_kafka_in_every_case(kind: ClusterKind) -> None:
    results = played(WIREKAFKA, NEWEST, kind)
    assert different(results) == []
    assert [each.case.name for each in results if each.outcome == "unsupported"] == []
    assert len(results) > _FEWEST


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cluster", swept(_KAFKAS, every=len(_KAFKAS)), ids=" ".join)
def test_apache_kafka_answers_as_it_was_recorded(cluster: tuple[str, ClusterKind]) -> None:
    release, kind = cluster
    results = played(release, release, kind)
    assert different(results) == []


def played(engine: str, release: str, kind: ClusterKind) -> list[CaseResult]:
    """What all cases show on a new cluster of an engine, judged by a release."""
    with cluster_of(engine, kind) as (bootstrap, config):
        target = ClusterUnderTest([Address.parse(each) for each in bootstrap.split(",")], config)
        target.look()
        results = list(judged(target, release))
        assert clean(target.bootstrap, config, target.prefix) == []
    return results


def judged(target: ClusterUnderTest, release: str) -> Iterator[CaseResult]:
    player = Player(target)
    player.prepare()
    cases = playable(all_cases(), target)
    chosen = [each for each in cases if judged_versions(each, target, release)]
    yield from player.judged(chosen, release, with_messages=True)


def different(results: list[CaseResult]) -> list[str]:
    """Each difference, or failure, in a line."""
    return [
        f"{each.case.name} v{played.version}: {what}"
        for each in results
        for played in each.played
        for what in [*map(str, played.differences), *([played.failure] if played.failure else [])]
    ]

"""A voter of Kafka 4.3.1 in a quorum of wirekafka's controllers, as follower and as leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster import FIRST_CONTROLLER, KAFKA, WIREKAFKA, Cluster, Shape
from compat_tests.quorums import assert_equal_metadata, await_followed, await_leader, make
from tests import kafka_jars
from wirekafka.metadata.controller.features import METADATA_FEATURE, bootstrap_features
from wirekafka.protocol.records.metadata import FeatureLevelRecord

VOTERS = FIRST, SECOND, PREVIOUS = tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + 3))
_LEVELS = {METADATA_FEATURE: 30, "share.version": 1}
"""The newest of 4.3, which lacks those of a new cluster of 4.4."""


@pytest.mark.timeout(240)
def test_a_voter_of_4_3_follows_and_leads_wirekafkas(tmp_path: Path, unique: str) -> None:
    features = [
        FeatureLevelRecord(name=each.name, feature_level=_LEVELS.get(each.name, each.feature_level))
        for each in bootstrap_features()
        if isinstance(each, FeatureLevelRecord)
    ]
    shape = Shape(
        brokers=(WIREKAFKA,),
        controllers=3,
        controller_engines=(WIREKAFKA, WIREKAFKA, KAFKA),
        first_voters=VOTERS,
        is_combined=False,
        settings={"offsets.topic.replication.factor": "1"},
        records=features,
        jars={PREVIOUS: kafka_jars.previous_release_jars()},
    )
    with Cluster.laid_out(shape, tmp_path) as cluster:
        cluster.start(FIRST, SECOND, 1)
        make(cluster, f"{unique}-ours")
        cluster.spawn(PREVIOUS)
        await_followed(cluster, *VOTERS)
        before = await_leader(cluster)
        [other] = {FIRST, SECOND} - {before.leader}
        cluster.kill(other)
        make(cluster, f"{unique}-known-to-two")
        await_followed(cluster, PREVIOUS)
        cluster.kill(before.leader)
        cluster.spawn(other)
        # Nobody else alive has a log as long as its.
        assert await_leader(cluster, after_epoch=before.epoch).leader == PREVIOUS
        cluster.spawn(before.leader)
        make(cluster, f"{unique}-theirs")
        await_followed(cluster, *VOTERS)
        assert_equal_metadata(*(cluster.nodes[id] for id in VOTERS))

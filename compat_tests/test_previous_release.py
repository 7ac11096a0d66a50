"""Kafka 4.3.1 shares directories with wirekafka, and its API versions differ as listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.apache_kafka import SMALL_JVM, apache_kafka_on, prepare
from compat_tests.test_handover import abandon, create, work
from compat_tests.visible_state import view
from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from tests import kafka_jars
from wirekafka.protocol.api_versions import ApiVersionsRequest

NEW_IN_4_4 = {
    18: ((0, 4), (0, 5)),
    28: ((0, 5), (0, 6)),
    42: ((0, 2), (0, 3)),
    88: ((0, 0), (0, 1)),
    89: ((0, 0), (0, 1)),
    93: (None, (0, 0)),
    94: (None, (0, 0)),
}
"""API key -> its versions in 4.3.1 (None: no such API), and in 4.4.0."""


@pytest.mark.timeout(400)
def test_a_directory_at_the_level_of_4_3_goes_to_kafka_4_3_and_back(tmp_path: Path) -> None:
    jars = kafka_jars.previous_release_jars()
    prepare(tmp_path, SMALL_JVM, jars=jars)
    data = tmp_path / "data"
    with live_broker(data) as bootstrap:
        create(bootstrap)
        work(bootstrap, "first")
        before, ours = view(bootstrap), _versions(bootstrap)
    with apache_kafka_on([data], tmp_path, jars) as bootstrap:
        assert view(bootstrap) == before
        theirs = _versions(bootstrap)
        abandon(bootstrap, "first")
        work(bootstrap, "kafka")
        before = view(bootstrap)
    with live_broker(data) as bootstrap:
        assert view(bootstrap) == before
    assert {
        key: (theirs.get(key), versions)
        for key, versions in ours.items()
        if theirs.get(key) != versions
    } == NEW_IN_4_4


def _versions(bootstrap: str) -> dict[int, tuple[int, int]]:
    wire = Wire.to(bootstrap)
    answer = wire.ask(
        ApiVersionsRequest(client_software_name="previous-release", client_software_version="1"), 4
    )
    wire.close()
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

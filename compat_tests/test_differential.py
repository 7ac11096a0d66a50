"""Compares the responses of wirekafka and Apache Kafka to the same requests, in every version.

Run with `--apache HOST:PORT` to use an Apache Kafka that is running already.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from compat_tests import differential_admin, differential_groups, differential_records
from compat_tests.conftest import RunningBroker
from compat_tests.stage import Stage, staged
from compat_tests.wire import versions_of
from wirekafka.codec.frame import encode_frame
from wirekafka.codec.message import Request
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest


@dataclass
class Pair:
    """The broker under test and the reference."""

    ours: Stage
    reference: Stage

    def versions(self, request: type[Request]) -> Sequence[int]:
        return versions_of(request, self.ours.versions, self.reference.versions)

    def assert_same(self, play: Callable[[Stage], Any], what: str) -> None:
        """Assert that `play` returns the same for both brokers; `what` names the case."""
        ours, expected = play(self.ours), play(self.reference)
        assert ours == expected, what


@pytest.fixture(scope="module")
def pair(broker: RunningBroker, apache_kafka: RunningBroker) -> Iterator[Pair]:
    # Two suffixes, so that Apache Kafka can also be compared with itself.
    ours, reference = secrets.token_hex(4), secrets.token_hex(4)
    made = Pair(staged(broker.address, ours), staged(apache_kafka.address, reference))
    yield made
    for stage in (made.ours, made.reference):
        for name in stage.ids:
            stage.ask(differential_admin.delete_topics(name), 5)
        stage.wire.close()


def test_the_advertised_versions_are_kafkas(pair: Pair) -> None:
    reference = pair.reference.versions
    different = {
        key: (ours, reference.get(key))
        for key, ours in pair.ours.versions.items()
        if ours != reference.get(key)
    }
    assert different == {}


CASES = [*differential_admin.CASES, *differential_records.CASES, *differential_groups.CASES]


@pytest.mark.parametrize(("name", "request_type", "make"), CASES, ids=[case[0] for case in CASES])
def test_one_request_gets_the_same_response_as_from_kafka(
    pair: Pair, name: str, request_type: type[Request], make: Callable[[Stage], Request]
) -> None:
    versions = pair.versions(request_type)
    if not versions:
        pytest.skip(f"{request_type.__name__} is not advertised")
    for version in versions:
        pair.assert_same(lambda stage, v=version: stage.ask(make(stage), v), f"version {version}")


PLAYS = [*differential_admin.PLAYS, *differential_groups.PLAYS, *differential_records.PLAYS]


@pytest.mark.parametrize("play", PLAYS, ids=[play.__name__ for play in PLAYS])
def test_a_sequence_of_requests_gets_the_same_responses_as_from_kafka(
    pair: Pair, play: Callable[[Stage], Any]
) -> None:
    pair.assert_same(play, play.__doc__ or play.__name__)


NAMES = [*(f"order-{number}" for number in range(60)), "", "order-7"]


@pytest.mark.parametrize(
    ("request_", "version", "field"),
    [
        (DescribeGroupsRequest(groups=NAMES), 5, "groups"),
        (ConsumerGroupDescribeRequest(group_ids=NAMES), 1, "groups"),
        (ShareGroupDescribeRequest(group_ids=NAMES), 1, "groups"),
        (StreamsGroupDescribeRequest(group_ids=NAMES), 0, "groups"),
        (DeleteGroupsRequest(groups_names=NAMES), 2, "results"),
    ],
    ids=["classic", "consumer", "share", "streams", "deleted"],
)
def test_several_groups_are_reported_in_the_order_of_kafka(
    pair: Pair, request_: Request, version: int, field: str
) -> None:
    def reported(stage: Stage) -> list[str]:
        answer = stage.wire.ask(request_, version)
        return [each.group_id for each in getattr(answer, field)]

    pair.assert_same(reported, field)
    assert reported(pair.reference) not in (NAMES, NAMES[:-1])


def test_a_newer_api_versions_is_answered_in_version_0(pair: Pair) -> None:
    # Key 18 in version 99: correlation id 7, client id "x", no tags.
    frame = encode_frame([bytes.fromhex("0012 0063 00000007 0001 78 00 01 01 00".replace(" ", ""))])

    def head(stage: Stage) -> Any:
        answer = stage.wire.exchange(frame)
        assert isinstance(answer, bytes)
        return answer[:6], len(answer)

    assert head(pair.ours)[0] == head(pair.reference)[0]


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("spaced name", "1"), ("ok", ""), ("ok.-", "-1"), ("long" * 75, "1")],
)
@pytest.mark.parametrize("api_version", [3, 4])
def test_client_software_names_are_validated_as_by_kafka(
    pair: Pair, name: str, version: str, api_version: int
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)

    def error(stage: Stage) -> Any:
        answer = stage.wire.ask(request, api_version)
        return answer if isinstance(answer, str) else answer.error_code

    pair.assert_same(error, f"{name!r} {version!r}")


@pytest.mark.parametrize("name", ["wire", ""])
@pytest.mark.parametrize("node_id", [1, 2, -1, -2])
@pytest.mark.parametrize("cluster", ["its own", "another", "", None])
def test_clients_that_expect_another_cluster_or_node_get_the_same_error(
    pair: Pair, cluster: str | None, node_id: int, name: str
) -> None:
    def errors(stage: Stage) -> Any:
        cluster_id = stage.cluster_id if cluster == "its own" else cluster
        request = ApiVersionsRequest(
            client_software_name=name,
            client_software_version="1",
            cluster_id=cluster_id,
            node_id=node_id,
        )
        answers = [stage.wire.ask(request, version) for version in (4, 5)]
        return [(answer.error_code, bool(answer.api_keys)) for answer in answers]

    pair.assert_same(errors, f"{cluster!r} {node_id}")


def test_features_differ_by_those_whose_apis_are_not_served(pair: Pair) -> None:
    request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")

    def features(stage: Stage) -> dict[str, tuple[Any, ...]]:
        answer = stage.wire.ask(request, 5)
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        return {
            each.name: (each.min_version, each.max_version, levels.get(each.name))
            for each in answer.supported_features
        }

    apis = {"group.version": 68, "share.version": 76, "streams.version": 88}
    ours, reference = features(pair.ours), features(pair.reference)
    assert ours == {
        name: levels
        for name, levels in reference.items()
        if apis.get(name) is None or apis[name] in pair.ours.versions
    }


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param("0003 0001", id="cut short"),
        pytest.param("0fff 0001 00000001 ffff", id="an unknown api key"),
        pytest.param("0003 7fff 00000001 ffff", id="an unknown version"),
        pytest.param("0001 0000 00000001 ffff", id="a version that was removed"),
        pytest.param("0003 0001 00000001 ffff 7fffffff", id="a huge count"),
        pytest.param("0003 0001 00000001 ffff 00000001 0005 6162", id="a string past the end"),
        pytest.param("0003 0001 00000001 ffff ffffffff ffff", id="bytes left over"),
        pytest.param("", id="an empty frame"),
    ],
)
def test_bad_frames_are_answered_or_closed_as_by_kafka(pair: Pair, frame: str) -> None:
    encoded = encode_frame([bytes.fromhex(frame.replace(" ", ""))])

    def end(stage: Stage) -> Any:
        answer = stage.wire.exchange(encoded, timeout_s=3)
        stage.wire.close()
        return answer if isinstance(answer, str) else "an answer"

    pair.assert_same(end, frame)

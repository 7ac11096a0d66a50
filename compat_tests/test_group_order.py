"""Several groups are reported in the order of a Java map, as by Apache Kafka."""

from __future__ import annotations

import pytest

from compat_tests.conftest import RunningBroker
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.share_group_describe import ShareGroupDescribeRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest

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
    broker: RunningBroker, apache_kafka: RunningBroker, request_: Request, version: int, field: str
) -> None:
    def reported(running: RunningBroker) -> list[str]:
        wire = Wire(running.address)
        eventually(lambda: has_coordinators(wire), timeout_s=60)
        answer = wire.ask(request_, version)
        wire.close()
        return [each.group_id for each in getattr(answer, field)]

    expected = reported(apache_kafka)
    assert reported(broker) == expected
    assert expected not in (NAMES, NAMES[:-1])


def has_coordinators(wire: Wire) -> bool:
    """Whether each partition of the offsets topic has a leader; a lookup creates it."""
    found = wire.ask(FindCoordinatorRequest(coordinator_keys=NAMES[:-2]), 4)
    if any(each.error_code for each in found.coordinators):
        return False
    described = wire.ask(DescribeGroupsRequest(groups=NAMES[:-2]), 5)
    return not any(group.error_code for group in described.groups)

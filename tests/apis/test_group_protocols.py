"""The kinds of groups that the options of the broker and the feature levels permit."""

from pathlib import Path
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.errors import Error
from wirekafka.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.streams_group_describe import StreamsGroupDescribeRequest
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest

CONSUMER = (
    (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m" * 22, member_epoch=0), 1),
    (ConsumerGroupDescribeRequest(group_ids=["g"]), 1),
)
STREAMS = (
    (StreamsGroupHeartbeatRequest(group_id="g", member_id="m" * 22, member_epoch=0), 0),
    (StreamsGroupDescribeRequest(group_ids=["g"]), 0),
)


def error_of(response: Any) -> int:
    code: int = getattr(response, "groups", [response])[0].error_code
    return code


@pytest.mark.parametrize(
    ("protocols", "refused"),
    [("classic,streams", CONSUMER), ("classic,consumer", STREAMS), ("classic,share", STREAMS)],
)
def test_a_disabled_protocol_is_an_unsupported_version(
    tmp_path: Path, manual_clock: ManualClock, protocols: str, refused: Any
) -> None:
    kafka = InProcessBroker(
        tmp_path / "data", manual_clock, group_coordinator_rebalance_protocols=protocols
    )
    for request, version in refused:
        assert error_of(kafka.call(request, version)) == Error.UNSUPPORTED_VERSION
    for request, version in (*CONSUMER, *STREAMS):
        if (request, version) not in refused and protocols != "classic,share":
            assert error_of(kafka.call(request, version)) != Error.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("feature", "refused"), [("group.version", CONSUMER), ("streams.version", STREAMS)]
)
def test_a_feature_level_of_zero_disables_a_protocol(
    tmp_path: Path, manual_clock: ManualClock, feature: str, refused: Any
) -> None:
    kafka = InProcessBroker(tmp_path / "data", manual_clock)
    kafka.broker.image.features[feature] = 0
    for request, version in refused:
        assert error_of(kafka.call(request, version)) == Error.UNSUPPORTED_VERSION

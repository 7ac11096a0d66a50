"""StreamsGroupTopologyDescriptionUpdate: stores the description of a topology (KIP-1331).

Descriptions are kept by a plugin, a Java class. This broker has none, and responds as a Kafka
broker without one.
"""

from __future__ import annotations

from wirekafka.apis.group_protocols import check_streams_protocol
from wirekafka.apis.registry import Call, api
from wirekafka.apis.streams_group_describe import Node
from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError
from wirekafka.security.acl import GROUP, READ


class StreamsGroupTopologyDescriptionUpdateRequest(Request, key=93, versions="0", flexible="0+"):
    group_id: String
    member_id: String
    topology_epoch: Int32
    topology_description: TopologyDescription

    class TopologyDescription(Part):
        subtopologies: list[Subtopology]
        global_stores: list[GlobalStore]

        class Subtopology(Part):
            subtopology_id: String
            nodes: list[Node]

        class GlobalStore(Part):
            source: Node
            processor: Node


class StreamsGroupTopologyDescriptionUpdateResponse(
    Response, answers=StreamsGroupTopologyDescriptionUpdateRequest
):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)


@api(StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse)
def streams_group_topology_description_update(
    request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Refuse the description: no plugin is configured."""
    check_streams_protocol(call)
    if not call.is_authorized(READ, GROUP, request.group_id):
        raise KafkaError(Error.GROUP_AUTHORIZATION_FAILED)
    raise KafkaError(
        Error.UNSUPPORTED_VERSION,
        "The broker has no streams group topology description plugin configured.",
    )

"""StreamsGroupTopologyDescriptionUpdate: stores the description of a topology (KIP-1331)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Part, Request, Response, String, field
from wirekafka.protocol.streams_group_describe import Node


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

"""ListConfigResources: lists the resources that have dynamic configs (KIP-1142)."""

from __future__ import annotations

from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[Int8] = field("1+")


class ListConfigResourcesResponse(Response, answers=ListConfigResourcesRequest):
    throttle_time_ms: Int32
    error_code: Int16
    config_resources: list[ConfigResource]

    class ConfigResource(Part):
        resource_name: String
        resource_type: Int8 = field("1+", default=16)

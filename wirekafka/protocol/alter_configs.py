"""AlterConfigs: replaces all dynamic configs of a resource at once (KIP-133)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int8, Int16, Int32, Part, Request, Response, String, field


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    resources: list[Resource]
    validate_only: Bool

    class Resource(Part):
        resource_type: Int8
        resource_name: String
        configs: list[AlterableConfig]

        class AlterableConfig(Part):
            name: String
            value: String | None = field(default="")


class AlterConfigsResponse(Response, answers=AlterConfigsRequest):
    throttle_time_ms: Int32
    responses: list[ResourceResponse]

    class ResourceResponse(Part):
        error_code: Int16
        error_message: String | None = field(default="")
        resource_type: Int8
        resource_name: String

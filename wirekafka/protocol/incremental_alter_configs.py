"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single configs
(KIP-339).
"""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int8, Int16, Int32, Part, Request, Response, String, field


class IncrementalAlterConfigsRequest(Request, key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource]
    validate_only: Bool

    class AlterConfigsResource(Part):
        resource_type: Int8
        resource_name: String
        configs: list[AlterableConfig]

        class AlterableConfig(Part):
            name: String
            config_operation: Int8
            value: String | None = field(default="")


class IncrementalAlterConfigsResponse(Response, answers=IncrementalAlterConfigsRequest):
    throttle_time_ms: Int32
    responses: list[AlterConfigsResourceResponse]

    class AlterConfigsResourceResponse(Part):
        error_code: Int16
        error_message: String | None = field(default="")
        resource_type: Int8
        resource_name: String

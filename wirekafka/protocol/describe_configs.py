"""DescribeConfigs: lists the configs of topics, brokers, groups and other resources (KIP-133)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int8, Int16, Int32, Part, Request, Response, String, field


class DescribeConfigsRequest(Request, key=32, versions="1-4", flexible="4+"):
    resources: list[Resource]
    include_synonyms: Bool
    include_documentation: Bool = field("3+")

    class Resource(Part):
        resource_type: Int8
        resource_name: String
        configuration_keys: list[String] | None = field(default=[])


class DescribeConfigsResponse(Response, answers=DescribeConfigsRequest):
    throttle_time_ms: Int32
    results: list[Result]

    class Result(Part):
        error_code: Int16
        error_message: String | None = field(default="")
        resource_type: Int8
        resource_name: String
        configs: list[ResourceResult]

        class ResourceResult(Part):
            name: String
            value: String | None = field(default="")
            read_only: Bool
            config_source: Int8 = field(default=-1)
            is_sensitive: Bool
            synonyms: list[Synonym]
            config_type: Int8 = field("3+")
            documentation: String | None = field("3+", default="")

            class Synonym(Part):
                name: String
                value: String | None = field(default="")
                source: Int8

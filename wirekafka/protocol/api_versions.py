"""ApiVersions: lists the APIs with their versions, and the features, that this broker
supports.
"""

from __future__ import annotations

from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)


class ApiVersionsRequest(Request, key=18, versions="0-5", flexible="3+"):
    client_software_name: String = field("3+")
    client_software_version: String = field("3+")
    cluster_id: String | None = field("5+", default=None)
    node_id: Int32 = field("5+", default=-1)


class ApiVersionsResponse(Response, answers=ApiVersionsRequest):
    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field("1+")
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2)
    zk_migration_ready: Bool = field("3+", tag=3)

    class ApiVersion(Part):
        api_key: Int16
        min_version: Int16
        max_version: Int16

    class SupportedFeatureKey(Part):
        name: String
        min_version: Int16
        max_version: Int16

    class FinalizedFeatureKey(Part):
        name: String
        max_version_level: Int16
        min_version_level: Int16

"""DescribeCluster: lists the brokers and names the controller (KIP-700)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int8, Int16, Int32, Part, Request, Response, String, field
from wirekafka.protocol.authorized_operations import NOT_REQUESTED


class DescribeClusterRequest(Request, key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+")


class DescribeClusterResponse(Response, answers=DescribeClusterRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String
    controller_id: Int32 = field(default=-1)
    brokers: list[Broker]
    cluster_authorized_operations: Int32 = field(default=NOT_REQUESTED)

    class Broker(Part):
        broker_id: Int32
        host: String
        port: Int32
        rack: String | None = field(default=None)
        is_fenced: Bool = field("2+")

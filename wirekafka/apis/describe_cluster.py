"""DescribeCluster: lists the brokers and names the controller (KIP-700).

v1: controllers (KIP-919), v2: fenced brokers (KIP-1073).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, at_controllers
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image.view import controller_for_clients, nodes
from wirekafka.protocol.authorized_operations import NOT_REQUESTED
from wirekafka.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from wirekafka.security.acl import ALTER, CLUSTER

_BROKERS, _CONTROLLERS = 1, 2


@api(DescribeClusterRequest, DescribeClusterResponse)
def describe_cluster(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """List the brokers with their addresses on the client's listener."""
    if request.endpoint_type == _CONTROLLERS:
        raise KafkaError(
            Error.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of "
            "type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        raise KafkaError(
            Error.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    broker = call.broker
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=broker.cluster_id,
        controller_id=controller_for_clients(broker.image, broker.node_id),
        brokers=[
            DescribeClusterResponse.Broker(
                broker_id=node.broker.id,
                host=node.host,
                port=node.port,
                rack=node.broker.rack,
                is_fenced=node.broker.fenced,
            )
            for node in nodes(broker.image, call.listener)
            if request.include_fenced_brokers or not node.broker.fenced
        ],
        cluster_authorized_operations=(
            call.cluster_operations()
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


@at_controllers(describe_cluster)
def describe_controllers(
    request: DescribeClusterRequest, call: ControllerCall
) -> DescribeClusterResponse:
    """List the registered controllers with their addresses on the listener, and name the leader."""
    call.authorize(ALTER, CLUSTER)
    if request.endpoint_type == _BROKERS:
        raise KafkaError(
            # Version 0 knows neither types of endpoints nor that error.
            Error.MISMATCHED_ENDPOINT_TYPE if call.version else Error.INVALID_REQUEST,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint "
            "of type BROKER",
        )
    if request.endpoint_type != _CONTROLLERS:
        raise KafkaError(
            Error.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    controller = call.controller
    return DescribeClusterResponse(
        error_message=None,
        endpoint_type=_CONTROLLERS,
        cluster_id=controller.cluster_id,
        controller_id=controller.raft.leadership.leader_id,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=id, host=endpoint.host, port=endpoint.port)
            for id, registered in sorted(controller.committed_image.controllers.items())
            for endpoint in registered.end_points
            if endpoint.name == call.listener
        ],
        cluster_authorized_operations=(
            call.cluster_operations()
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )

"""BrokerRegistration: registers a started broker, fenced at first, with the controller (KIP-631).

v2: log directories (KIP-858), v3: the epoch of its last clean shutdown (KIP-966).
"""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, controller_api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    UInt16,
    Uuid,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.registration import Endpoint, RegisterBroker
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


class BrokerRegistrationRequest(Request, key=62, versions="0-4", flexible="0+"):
    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: String | None
    is_migrating_zk_broker: Bool = field("1+")
    log_dirs: list[Uuid] = field("2+")
    previous_broker_epoch: Int64 = field("3+", default=-1)

    class Listener(Part):
        name: String
        host: String
        port: UInt16
        security_protocol: Int16

    class Feature(Part):
        name: String
        min_supported_version: Int16
        max_supported_version: Int16


class BrokerRegistrationResponse(Response, answers=BrokerRegistrationRequest):
    throttle_time_ms: Int32
    error_code: Int16
    broker_epoch: Int64 = field(default=-1)


@controller_api(BrokerRegistrationRequest, BrokerRegistrationResponse)
async def broker_registration(
    request: BrokerRegistrationRequest, call: ControllerCall
) -> BrokerRegistrationResponse:
    """Register a broker; the response has the epoch that its later requests must carry."""
    call.authorize(CLUSTER_ACTION, CLUSTER)
    controller = call.controller
    if request.cluster_id != controller.cluster_id:
        raise KafkaError(
            Error.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {controller.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            Error.BROKER_ID_NOT_REGISTERED, "Brokers of a ZooKeeper cluster cannot be registered"
        )
    epoch = await controller.submit(
        RegisterBroker(
            id=request.broker_id,
            incarnation_id=request.incarnation_id,
            # As in Kafka, the broker epoch is the offset of the registration record.
            epoch=controller.quorum.end_offset,
            endpoints=[
                Endpoint(each.name, each.host, each.port, each.security_protocol)
                for each in request.listeners
            ],
            rack=request.rack,
            log_dirs=request.log_dirs,
            previous_epoch=request.previous_broker_epoch if call.version >= 3 else None,
            features={
                each.name: (each.min_supported_version, each.max_supported_version)
                for each in request.features
            },
        )
    )
    return BrokerRegistrationResponse(broker_epoch=epoch)

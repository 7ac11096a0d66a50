"""BrokerRegistration: registers a started broker, fenced at first, with the controller (KIP-631).

v2: log directories (KIP-858), v3: the epoch of its last clean shutdown (KIP-966).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.registration import Endpoint, RegisterBroker
from wirekafka.protocol.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


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

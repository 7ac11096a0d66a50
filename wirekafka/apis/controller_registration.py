"""ControllerRegistration: a controller reports its listeners and features (KIP-919)."""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import controller_api
from wirekafka.metadata.controller.registration import Endpoint, RegisterController
from wirekafka.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION


@controller_api(ControllerRegistrationRequest, ControllerRegistrationResponse)
async def controller_registration(
    request: ControllerRegistrationRequest, call: ControllerCall
) -> ControllerRegistrationResponse:
    """Register a controller, which may be this node."""
    if not call.is_authorized(CLUSTER_ACTION, CLUSTER):
        raise refusal(CLUSTER)
    await call.controller.submit(
        RegisterController(
            id=request.controller_id,
            incarnation_id=request.incarnation_id,
            endpoints=[
                Endpoint(each.name, each.host, each.port, each.security_protocol)
                for each in request.listeners
            ],
            features={
                each.name: (each.min_supported_version, each.max_supported_version)
                for each in request.features
            },
        )
    )
    return ControllerRegistrationResponse()

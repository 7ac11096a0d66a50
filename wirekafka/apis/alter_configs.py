"""AlterConfigs: replaces all dynamic configs of a resource at once (KIP-133).

Superseded by IncrementalAlterConfigs (KIP-339).
"""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.shared import config_changes
from wirekafka.apis.shared.registry import Call, ControllerCall, api, failure_of
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.configs import (
    Change,
    Kind,
    ReplaceConfigs,
    ResourceChanges,
    replaced,
)
from wirekafka.protocol.alter_configs import AlterConfigsRequest, AlterConfigsResponse

_Response = AlterConfigsResponse.ResourceResponse


async def _on_controller(
    request: AlterConfigsRequest, call: ControllerCall
) -> AlterConfigsResponse:
    resources = _resources(request)
    reply = await config_changes.submit_authorized(
        resources,
        call,
        lambda allowed: ReplaceConfigs(allowed, request.validate_only, call.is_direct),
    )
    return AlterConfigsResponse(
        responses=[
            _response(resource, error) for resource, error in zip(resources, reply, strict=True)
        ]
    )


@api(AlterConfigsRequest, AlterConfigsResponse, on_controller=_on_controller)
async def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    """Replace all configs of each resource: those not named return to their defaults."""
    resources = _resources(request)

    async def submit(passed: Sequence[ResourceChanges]) -> list[KafkaError | None]:
        return await config_changes.forward(request, passed, call)

    outcome = await config_changes.alter(resources, call, replaced, submit)
    return AlterConfigsResponse(
        responses=[
            _response(resource, error) for resource, error in zip(resources, outcome, strict=True)
        ]
    )


def _resources(request: AlterConfigsRequest) -> list[ResourceChanges]:
    return [
        ResourceChanges(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, Kind.SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]


def _response(resource: ResourceChanges, error: KafkaError | None) -> _Response:
    return _Response(
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
        resource_type=resource.type,
        resource_name=resource.name,
    )


@failure_of(alter_configs)
def alter_configs_failure(
    request: AlterConfigsRequest, error: KafkaError, call: Call
) -> AlterConfigsResponse:
    """Report the error for every resource of the request."""
    return AlterConfigsResponse(
        responses=[_response(resource, error) for resource in _resources(request)]
    )

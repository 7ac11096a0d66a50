"""AlterConfigs: replaces all dynamic configs of a resource at once (KIP-133).

Superseded by IncrementalAlterConfigs (KIP-339).
"""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.shared import config_changes
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.configs import (
    ConfigChange,
    ConfigOperation,
    ReplaceConfigs,
    ResourceChanges,
    replaced,
)
from wirekafka.protocol.alter_configs import AlterConfigsRequest, AlterConfigsResponse

_Response = AlterConfigsResponse.ResourceResponse


async def _on_controller(
    request: AlterConfigsRequest, call: ControllerCall
) -> AlterConfigsResponse:
    turns = Turns()
    resources = await _resources(request, turns)
    reply = await config_changes.submit_authorized(
        resources,
        call,
        turns,
        lambda allowed: ReplaceConfigs(allowed, request.validate_only, call.is_direct),
    )
    results = zip(resources, reply, strict=True)
    return AlterConfigsResponse(
        responses=await turns.map(lambda result: _response(*result), results)
    )


@api(AlterConfigsRequest, AlterConfigsResponse, on_controller=_on_controller)
async def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    """Replace all configs of each resource: unnamed options return to their defaults."""
    turns = Turns()
    resources = await _resources(request, turns)

    async def submit(passed: Sequence[ResourceChanges]) -> list[KafkaError | None]:
        return await config_changes.forward(request, passed, call, turns)

    outcome = await config_changes.alter(resources, call, replaced, submit, turns)
    results = zip(resources, outcome, strict=True)
    return AlterConfigsResponse(
        responses=await turns.map(lambda result: _response(*result), results)
    )


async def _resources(request: AlterConfigsRequest, turns: Turns) -> list[ResourceChanges]:
    resources = []
    for resource in request.resources:
        changes = await turns.map(_change, resource.configs)
        resources.append(ResourceChanges(resource.resource_type, resource.resource_name, changes))
        await turns.step()
    return resources


def _change(config: AlterConfigsRequest.Resource.AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, ConfigOperation.SET, config.value)


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
        responses=[
            _response(ResourceChanges(each.resource_type, each.resource_name, []), error)
            for each in request.resources
        ]
    )

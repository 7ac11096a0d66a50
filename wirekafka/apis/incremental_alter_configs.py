"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single configs (KIP-339)."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.apis.shared import config_changes
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ResourceChanges,
    changed,
)
from wirekafka.metadata.image.image import BROKER_LOGGER
from wirekafka.protocol.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_Response = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def _on_controller(
    request: IncrementalAlterConfigsRequest, call: ControllerCall
) -> IncrementalAlterConfigsResponse:
    turns = Turns()
    resources = await _resources(request, turns)
    counts = await turns.count((each.type, each.name) for each in resources)

    def is_stored(resource: ResourceChanges) -> bool:
        is_unique = counts[resource.type, resource.name] == 1
        return resource.type != BROKER_LOGGER and (
            is_unique or resource.type not in config_changes.TYPES
        )

    def altered(resource: ResourceChanges) -> KafkaError | None:
        if counts[resource.type, resource.name] > 1:
            return KafkaError(Error.INVALID_REQUEST, "Duplicate resource.")
        return config_changes.alter_loggers(
            resource, call, call.controller.node_id, validate_only=request.validate_only
        )

    replies = iter(
        await config_changes.submit_authorized(
            [each for each in resources if is_stored(each)],
            call,
            turns,
            lambda allowed: AlterConfigs(allowed, request.validate_only, call.is_direct),
        )
    )
    outcome = await turns.map(
        lambda resource: next(replies) if is_stored(resource) else altered(resource), resources
    )
    results = zip(resources, outcome, strict=True)
    return IncrementalAlterConfigsResponse(
        responses=await turns.map(lambda result: _response(*result), results)
    )


@api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, on_controller=_on_controller)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    """Change single configs; each resource has a result of its own."""
    turns = Turns()
    resources = await _resources(request, turns)

    async def submit(passed: Sequence[ResourceChanges]) -> list[KafkaError | None]:
        kept = [resource for resource in passed if resource.type != BROKER_LOGGER]
        replies = iter(await config_changes.forward(request, kept, call, turns))
        return await turns.map(
            lambda resource: (
                config_changes.alter_loggers(
                    resource, call, call.broker.node_id, validate_only=request.validate_only
                )
                if resource.type == BROKER_LOGGER
                else next(replies)
            ),
            passed,
        )

    outcome = await config_changes.alter(resources, call, changed, submit, turns)
    results = zip(resources, outcome, strict=True)
    return IncrementalAlterConfigsResponse(
        responses=await turns.map(lambda result: _response(*result), results)
    )


async def _resources(
    request: IncrementalAlterConfigsRequest, turns: Turns
) -> list[ResourceChanges]:
    resources = []
    for resource in request.resources:
        changes = await turns.map(_change, resource.configs)
        resources.append(ResourceChanges(resource.resource_type, resource.resource_name, changes))
        await turns.step()
    return resources


def _change(
    config: IncrementalAlterConfigsRequest.AlterConfigsResource.AlterableConfig,
) -> ConfigChange:
    return ConfigChange(config.name, config.config_operation, config.value)


def _response(resource: ResourceChanges, error: KafkaError | None) -> _Response:
    return _Response(
        error_code=error.error if error else Error.NONE,
        error_message=error.message if error else None,
        resource_type=resource.type,
        resource_name=resource.name,
    )


@failure_of(incremental_alter_configs)
def incremental_alter_configs_failure(
    request: IncrementalAlterConfigsRequest, error: KafkaError, call: Call
) -> IncrementalAlterConfigsResponse:
    """Report the error for every resource of the request."""
    return IncrementalAlterConfigsResponse(
        responses=[
            _response(ResourceChanges(each.resource_type, each.resource_name, []), error)
            for each in request.resources
        ]
    )

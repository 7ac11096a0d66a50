"""The checks that AlterConfigs and IncrementalAlterConfigs make before they ask the controller.

Nothing that depends on a value happens before its author is authorized: values may name files, and
refer to secrets that config providers read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.turns import Turns
from wirekafka.config import loggers
from wirekafka.config.checks.dynamic import validate_dynamic
from wirekafka.config.checks.listener_update import check_listeners
from wirekafka.config.checks.update import validate_broker
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import ControllerCommand
from wirekafka.metadata.controller.configs import (
    ConfigOperation,
    ResourceChanges,
    Values,
    check_changes,
)
from wirekafka.metadata.image.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from wirekafka.security import acl
from wirekafka.security.access import REFUSALS, refusal
from wirekafka.security.acl import ALTER_CONFIGS, CLUSTER, CLUSTER_NAME

_AUTHORIZED_AS = {TOPIC: acl.TOPIC, GROUP: acl.GROUP, BROKER: CLUSTER, CLIENT_METRICS: CLUSTER}
"""The type of an ACL by the type of a config resource."""
TYPES = frozenset({*_AUTHORIZED_AS, BROKER_LOGGER})
"""The types of resources that have configs."""
_KINDS = frozenset(ConfigOperation)
_LONGEST_NUMBER = 32
"""The characters of a number that is read: Python refuses to read thousands of digits."""

Applied = Callable[[ResourceChanges, Values], dict[str, str]]
Submit = Callable[[Sequence[ResourceChanges]], Awaitable[list[KafkaError | None]]]


async def alter(
    resources: Sequence[ResourceChanges], call: Call, applied: Applied, submit: Submit, turns: Turns
) -> list[KafkaError | None]:
    """Check each resource, submit valid resources to the controller, return errors in order."""
    counts = await turns.count((resource.type, resource.name) for resource in resources)
    outcome: list[KafkaError | None] = []
    passed: list[ResourceChanges] = []
    for resource in resources:
        await turns.step(1 + len(resource.changes))
        try:
            if counts[resource.type, resource.name] > 1:
                raise _bad_request("Each resource must appear at most once.")
            check_changes(resource)
            if resource.type == BROKER:
                refused = why_refused(resource, call)
                if refused is not None:
                    raise refused
                await _check_broker(resource, call, applied)
            outcome.append(None)
            passed.append(resource)
        except KafkaError as error:
            outcome.append(error)
    replies = iter(await submit(passed))
    return [next(replies) if error is None else error for error in outcome]


def why_refused(resource: ResourceChanges, call: Call | ControllerCall) -> KafkaError | None:
    """The error for a resource whose configs the client may not change, else None."""
    kind = _AUTHORIZED_AS.get(resource.type)
    if kind is None:
        return None
    name = CLUSTER_NAME if kind is CLUSTER else resource.name
    if call.is_authorized(ALTER_CONFIGS, kind, name):
        return None
    # Kafka gives no text for brokers' configs.
    return KafkaError(REFUSALS[kind]) if resource.type == BROKER else refusal(kind)


async def submit_authorized(
    resources: Sequence[ResourceChanges],
    call: ControllerCall,
    turns: Turns,
    command: Callable[[Any], ControllerCommand[list[KafkaError | None]]],
) -> list[KafkaError | None]:
    """Run the command for the resources that the client may change; return errors in order."""
    why = _why_refused_directly if call.is_direct else why_refused
    refused = await turns.map(lambda resource: why(resource, call), resources)
    allowed = [each for each, error in zip(resources, refused, strict=True) if error is None]
    replies = iter(await call.controller.submit(command(allowed)))
    return [next(replies) if error is None else error for error in refused]


def _why_refused_directly(resource: ResourceChanges, call: ControllerCall) -> KafkaError | None:
    """As `why_refused`, with the errors of Kafka's controllers."""
    if resource.type not in TYPES:
        message = f"Unknown resource type {resource.type}."
        return KafkaError(Error.UNSUPPORTED_VERSION, message)
    error = why_refused(resource, call)
    return error and refusal(_AUTHORIZED_AS[resource.type])


async def forward(
    request: Any, passed: Sequence[ResourceChanges], call: Call, turns: Turns
) -> list[KafkaError | None]:
    """Forward the `passed` resources of a request (of either API); return errors in order."""
    if not passed:
        return []
    wanted = {(resource.type, resource.name) for resource in passed}
    kept = [
        each for each in request.resources if (each.resource_type, each.resource_name) in wanted
    ]
    await turns.step(len(kept))
    response = await call.broker.controller_channel.forward(
        type(request)(resources=kept, validate_only=request.validate_only), call
    )
    return await turns.map(
        lambda each: (
            KafkaError(Error(each.error_code), each.error_message) if each.error_code else None
        ),
        response.responses,
    )


def alter_loggers(
    resource: ResourceChanges, call: Call | ControllerCall, node_id: int, *, validate_only: bool
) -> KafkaError | None:
    """Set log levels until this node restarts; returns the error."""
    try:
        if not call.is_authorized(ALTER_CONFIGS, CLUSTER):
            # Kafka's brokers give no text.
            is_controller = isinstance(call, ControllerCall)
            raise refusal(CLUSTER) if is_controller else KafkaError(REFUSALS[CLUSTER])
        if not is_integer(resource.name):
            raise _bad_request(f"Node id must be an integer, but it is: {resource.name}")
        if int(resource.name) != node_id:
            raise _bad_request(
                f"Unexpected node id. Expected {node_id}, but received {resource.name}"
            )
        check_changes(resource)
        loggers.alter(resource.changes, validate_only=validate_only)
    except KafkaError as error:
        return error
    return None


async def _check_broker(resource: ResourceChanges, call: Call, applied: Applied) -> None:
    """Validate a change of this broker's configs. Raises KafkaError(INVALID_REQUEST)."""
    if resource.name and not is_integer(resource.name):
        raise _bad_request(f"Node id must be an integer, but it is: {resource.name}")
    if resource.name and int(resource.name) != call.broker.node_id:
        raise _bad_request(
            f"Unexpected broker id, expected {call.broker.node_id}, but received {resource.name}"
        )
    unknown = next((each.kind for each in resource.changes if each.kind not in _KINDS), None)
    if unknown is not None:
        raise _bad_request(f"Unknown operations type {unknown}")
    before = call.broker.image.config(BROKER, resource.name)
    after = applied(resource, before)
    validate_broker(after, per_broker=bool(resource.name))
    config, image = call.broker.config, call.broker.image
    cluster = image.config(BROKER, "") if resource.name else after
    own = after if resource.name else image.config(BROKER, str(call.broker.node_id))
    altered = config.with_written(cluster, own)
    validate_dynamic(config, after, altered)
    check_listeners(config, altered)
    try:
        await call.broker.dynamic.check(cluster, own)
    except ConfigError as error:
        raise _bad_request(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {error} for "
            "configuration Invalid dynamic configuration"
        ) from None


def is_integer(name: str) -> bool:
    """Whether a text is a number of 32 bits, as ids of brokers are, with a sign or without."""
    digits = name[1:] if name[:1] in ("+", "-") else name
    if not (digits.isdecimal() and digits.isascii() and len(name) <= _LONGEST_NUMBER):
        return False
    return -(1 << 31) <= int(name) < 1 << 31


def _bad_request(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)

"""What the two AlterConfigs APIs share: checks on this broker before the controller is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from wirekafka.apis.registry import Call
from wirekafka.config import loggers
from wirekafka.config.dynamic import validate_dynamic
from wirekafka.config.update import validate_broker
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.configs import ResourceChanges, Values, check_changes
from wirekafka.metadata.image import BROKER

Applied = Callable[[ResourceChanges, Values], dict[str, str]]
Submit = Callable[[Sequence[ResourceChanges]], Awaitable[list[KafkaError | None]]]


async def alter(resources: Sequence[ResourceChanges], call: Call, applied: Applied,
                submit: Submit) -> list[KafkaError | None]:
    """What became of each resource, in order; those in order here are left to the controller."""
    counts = Counter((resource.type, resource.name) for resource in resources)
    outcome: list[KafkaError | None] = []
    passed: list[ResourceChanges] = []
    for resource in resources:
        try:
            if counts[resource.type, resource.name] > 1:
                raise _bad_request("Each resource must appear at most once.")
            check_changes(resource)
            if resource.type == BROKER:
                _check_broker(resource, call, applied)
            outcome.append(None)
            passed.append(resource)
        except KafkaError as error:
            outcome.append(error)
    replies = iter(await submit(passed))
    return [next(replies) if error is None else error for error in outcome]


def alter_loggers(resource: ResourceChanges, call: Call, *, validate_only: bool) -> None:
    """Set levels on this broker; they are not kept. Raises as `loggers.alter`."""
    if not _is_id(resource.name):
        raise _bad_request(f"Node id must be an integer, but it is: {resource.name}")
    if int(resource.name) != call.broker.node_id:
        raise _bad_request(f"Unexpected node id. Expected {call.broker.node_id}, but received "
                           f"{resource.name}")
    loggers.alter(resource.changes, validate_only=validate_only)


def _check_broker(resource: ResourceChanges, call: Call, applied: Applied) -> None:
    """Raises INVALID_REQUEST: brokers look at changes of their own configs themselves."""
    if resource.name and not _is_id(resource.name):
        raise _bad_request(f"Node id must be an integer, but it is: {resource.name}")
    if resource.name and int(resource.name) != call.broker.node_id:
        raise _bad_request(f"Unexpected broker id, expected {call.broker.node_id}, but received "
                           f"{resource.name}")
    before = call.broker.image.config(BROKER, resource.name)
    after = applied(resource, before)
    validate_broker(after, per_broker=bool(resource.name))
    validate_dynamic(call.broker.config, after)


def _is_id(name: str) -> bool:
    return name.isdecimal() and name.isascii()


def _bad_request(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)

"""Requests about configurations, and what a resource is configured with once all is applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wirekafka.codec.message import Response
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP, UNKNOWN = 2, 4, 8, 16, 32, 77
"""Types of resources."""
SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs."""
OF_TOPIC, OF_DEFAULT, OF_CLIENT_METRICS, OF_GROUP = 1, 5, 7, 8
"""Sources of values."""
OWN = frozenset({OF_TOPIC, OF_CLIENT_METRICS, OF_GROUP})
NO_BROKER = "9999"

Change = tuple[str, int, str | None]
"""The name of a configuration, an operation and a value."""

_MARKS = {
    TOPIC: ("index.interval.bytes", "4321"),
    GROUP: ("consumer.heartbeat.interval.ms", "5001"),
    CLIENT_METRICS: ("interval.ms", "3599999"),
}
"""What is set last in a resource, by its type: when it is visible, so is all before."""


def resource_of(kind: int, name: str, changes: Iterable[Change]) -> Any:
    """A resource of an IncrementalAlterConfigs request."""
    part = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        part.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return part(resource_type=kind, resource_name=name, configs=configs)


def incremental(
    kind: int, name: str, *changes: Change, validate_only: bool = True
) -> IncrementalAlterConfigsRequest:
    """An IncrementalAlterConfigs request of one resource."""
    return IncrementalAlterConfigsRequest(
        resources=[resource_of(kind, name, changes)], validate_only=validate_only
    )


def replacement(
    kind: int, name: str, *values: tuple[str, str | None], validate_only: bool = True
) -> AlterConfigsRequest:
    """An AlterConfigs request of one resource."""
    part = AlterConfigsRequest.Resource
    configs = [part.AlterableConfig(name=key, value=value) for key, value in values]
    resource = part(resource_type=kind, resource_name=name, configs=configs)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def describe(
    kind: int, name: str, keys: Sequence[str] | None = None, **options: Any
) -> DescribeConfigsRequest:
    """A DescribeConfigs request of one resource."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configuration_keys=None if keys is None else list(keys),
    )
    return DescribeConfigsRequest(resources=[resource], **{"include_synonyms": True, **options})


def values_of(stage: Stage, kind: int, name: str) -> dict[str, str | None]:
    """What a resource itself has been configured with, by the home broker."""
    (found,) = stage.do(describe(kind, name), 4).results
    return {each.name: each.value for each in found.configs if each.config_source in OWN}


def note_values(stage: Stage, kind: int, name: str) -> None:
    """Compare what a resource has been configured with, when all earlier changes are applied."""
    key, mark = _MARKS[kind]
    stage.do(incremental(kind, name, (key, SET, mark), validate_only=False), 0)
    stage.until(lambda: values_of(stage, kind, name).get(key) == mark, f"{key} of {name}")
    values = values_of(stage, kind, name)
    stage.note("configurations", {each: value for each, value in values.items() if each != key})


def home(stage: Stage) -> str:
    """The home broker's id, as the name of a resource."""
    return str(stage.target.home)


def without_ids(stage: Stage, answer: Any) -> None:
    """Replace the home broker's id in an answer about its configurations."""
    if not isinstance(answer, Response):
        return
    id = home(stage)
    for each in getattr(answer, "results", None) or getattr(answer, "responses", ()):
        if each.resource_name == id:
            each.resource_name = "a broker"
        if each.error_message:
            each.error_message = each.error_message.replace(f"expected {id} ", "expected its id ")

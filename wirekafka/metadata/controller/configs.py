"""Commands that change the configs of topics, brokers, groups and metrics subscriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from wirekafka.codec.message import Message
from wirekafka.config.checks import update
from wirekafka.config.options import BROKER as BROKER_OPTIONS
from wirekafka.config.options import TOPIC as TOPIC_OPTIONS
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import (
    ControllerCommand,
    ControllerState,
    Decision,
    bounded,
)
from wirekafka.metadata.controller.topic_names import check_name
from wirekafka.metadata.image.framing import CORDONED_SINCE
from wirekafka.metadata.image.image import BROKER, CLIENT_METRICS, GROUP, TOPIC
from wirekafka.protocol.records.metadata import ClearElrRecord, ConfigRecord
from wirekafka.runtime.machine import command

MIN_ISR = "min.insync.replicas"
_CORDONED = "cordoned.log.dirs"


class ConfigOperation(IntEnum):
    """The operation of an incremental change (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one config of a resource."""

    name: str
    kind: int
    value: str | None


@dataclass(frozen=True)
class ResourceChanges:
    """The changes of one resource, which are applied together or not at all."""

    type: int
    name: str
    changes: Sequence[ConfigChange]


Reply = list[KafkaError | None]


@command
class AlterConfigs(ControllerCommand[Reply]):
    """Change single values (IncrementalAlterConfigs).

    The reply has None or an error for each resource, in order.
    """

    resources: Sequence[ResourceChanges]
    validate_only: bool = False
    is_direct: bool = False
    """Whether no broker has checked the values, as `ControllerCall.is_direct`."""

    def decide(self, state: ControllerState, now_ms: int) -> Decision[Reply]:
        """Return the config records of every resource whose changes are valid."""
        return _decide(self, state, changed)


@command
class ReplaceConfigs(ControllerCommand[Reply]):
    """Replace all values of resources: unlisted options are removed (AlterConfigs)."""

    resources: Sequence[ResourceChanges]
    validate_only: bool = False
    is_direct: bool = False
    """Whether no broker has checked the values, as `ControllerCall.is_direct`."""

    def decide(self, state: ControllerState, now_ms: int) -> Decision[Reply]:
        """Return a record for each value that differs."""
        return _decide(self, state, replaced)


Values = Mapping[str, str]
_Apply = Callable[[ResourceChanges, Values], dict[str, str]]


def _decide(
    command: AlterConfigs | ReplaceConfigs, state: ControllerState, apply: _Apply
) -> Decision[Reply]:
    records: list[Message] = []
    reply: Reply = []
    for resource in command.resources:
        try:
            records += _alter(resource, state, apply, is_direct=command.is_direct)
            reply.append(None)
        except KafkaError as error:
            reply.append(error)
    return Decision(() if command.validate_only else bounded(records), reply)


def _alter(
    resource: ResourceChanges, state: ControllerState, apply: _Apply, *, is_direct: bool
) -> list[Message]:
    _check_resource(resource, state)
    before = state.image.config(resource.type, resource.name)
    after = apply(resource, before)
    touched = {change.name for change in resource.changes}
    if resource.type == BROKER and state.image.has_elr:
        _keep_cluster_min_isr(resource, before, after)
    if resource.type == BROKER and (
        _CORDONED in touched or before.get(_CORDONED) != after.get(_CORDONED)
    ):
        _check_cordoned(before.get(_CORDONED), after.get(_CORDONED), state, is_direct=is_direct)
    _check_values(resource.type, before, after, touched, state)
    records: list[Message] = [
        ConfigRecord(
            resource_type=resource.type,
            resource_name=resource.name,
            name=name,
            value=after.get(name),
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
        # Brokers read the files that their options name again when an option is set once more,
        # though to the same value (KAFKA-14136).
        or (resource.type == BROKER and name in touched)
    ]
    changes_min_isr = before.get(MIN_ISR) != after.get(MIN_ISR)
    if changes_min_isr and state.image.has_elr and resource.type in (TOPIC, BROKER):
        # Eligible leader replicas were determined with the old minimum (KIP-966).
        name = resource.name if resource.type == TOPIC else ""
        records.append(ClearElrRecord(topic_name=name))
    return records


def _check_resource(resource: ResourceChanges, state: ControllerState) -> None:
    match resource.type:
        case 2:
            if not resource.name:
                raise _bad_request("Default topic resources are not allowed.")
            check_name(resource.name)
            if resource.name not in state.image.topics:
                raise KafkaError(
                    Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
                )
        case 4:
            if resource.name and not resource.name.isdecimal():
                raise _bad_request(f"Illegal topic or broker name: {resource.name}")
            if resource.name and not _is_node(int(resource.name), state):
                raise KafkaError(
                    Error.BROKER_ID_NOT_REGISTERED, f"No node with id {resource.name} found."
                )
        case 16:
            if not resource.name:
                raise _bad_request("Subscription name can't be empty")
        case 32:
            if not resource.name:
                raise _bad_request("Default group resources are not allowed.")
        case _:
            raise _bad_request(f"Unknown resource type {resource.type}")


def _is_node(id: int, state: ControllerState) -> bool:
    """Whether a broker or a controller with this id is registered."""
    return id == state.config.node_id or id in state.image.brokers or id in state.image.controllers


def check_changes(resource: ResourceChanges) -> None:
    """Raise INVALID_REQUEST for duplicate names, and for nulls where a value is needed."""
    names = Counter(change.name for change in resource.changes)
    if any(count > 1 for count in names.values()):
        raise _bad_request("Error due to duplicate config keys")
    nulls = [
        change.name
        for change in resource.changes
        if change.value is None and change.kind != ConfigOperation.DELETE
    ]
    if nulls:
        raise _bad_request(f"Null value not supported for : {', '.join(nulls)}")


def changed(resource: ResourceChanges, before: Values) -> dict[str, str]:
    """Return the values after incremental changes.

    Raises INVALID_CONFIG for list operations on options that are not lists.
    """
    after = dict(before)
    for change in resource.changes:
        value = change.value or ""
        match change.kind:
            case ConfigOperation.SET:
                after[change.name] = value
            case ConfigOperation.DELETE:
                after.pop(change.name, None)
            case ConfigOperation.APPEND:
                items = _items(resource, change, before)
                present = set(items)
                items += [item for item in value.split(",") if item not in present]
                after[change.name] = ",".join(items)
            case ConfigOperation.SUBTRACT:
                gone = set(value.split(","))
                items = _items(resource, change, before)
                after[change.name] = ",".join(item for item in items if item not in gone)
            case _:
                raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    return after


def replaced(resource: ResourceChanges, before: Values) -> dict[str, str]:
    """Return the values after all were replaced."""
    return {change.name: change.value or "" for change in resource.changes}


def _items(resource: ResourceChanges, change: ConfigChange, before: Values) -> list[str]:
    """The list to append to or subtract from; the option's default if it is not set."""
    if not update.is_list(resource.type, change.name):
        raise KafkaError(Error.INVALID_CONFIG, _not_a_list(resource.type, change))
    if change.name in before:
        return [item for item in before[change.name].split(",") if item]
    options = TOPIC_OPTIONS if resource.type == TOPIC else BROKER_OPTIONS
    return list(options[change.name].default if change.name in options else ())


def _not_a_list(resource_type: int, change: ConfigChange) -> str:
    kind = ConfigOperation(change.kind).name
    if resource_type != BROKER:
        return f"Can't {kind} to key {change.name} because its type is not LIST."
    if change.name not in BROKER_OPTIONS:
        return f"Unknown config name: {change.name}"
    return f"Config value {kind.lower()} is not allowed for config key: {change.name}"


def _keep_cluster_min_isr(resource: ResourceChanges, before: Values, after: Values) -> None:
    """Refuse changes after which the cluster has no common minimum ISR, as ELR needs (KIP-966)."""
    if resource.name and MIN_ISR in after:
        raise KafkaError(
            Error.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
        )
    removed = MIN_ISR not in after and any(
        change.name == MIN_ISR and change.kind == ConfigOperation.DELETE
        for change in resource.changes
    )
    if not resource.name and (removed or (MIN_ISR in before and MIN_ISR not in after)):
        raise KafkaError(
            Error.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        )


def _check_cordoned(
    before: str | None, after: str | None, state: ControllerState, *, is_direct: bool
) -> None:
    """Refuse cordoned directories below their feature level, and unknown directories (KIP-1066).

    Only the broker knows its directories: elsewhere, entries can be removed but not added.
    """
    if state.image.metadata_version < CORDONED_SINCE:
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"The {_CORDONED} configuration value cannot be set because it requires "
            "metadata.version >= 4.3-IV0",
        )
    if is_direct and not _paths(after) <= _paths(before):
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"When updating {_CORDONED} via controllers,  the new value must be a subset of the "
            "current configuration value.",
        )


def _paths(value: str | None) -> set[str]:
    if value is None or not value.strip():
        return set()
    return {path.strip() for path in value.split(",")}


def _check_values(
    type: int, before: Values, values: Values, touched: set[str], state: ControllerState
) -> None:
    if type == TOPIC:
        # An option set by a newer Kafka may exist already: it must not fail other changes.
        known = {
            name: value
            for name, value in values.items()
            if name in touched or name in TOPIC_OPTIONS
        }
        update.validate_topic(state.config, known, before)
    elif type == GROUP:
        update.validate_group(state.config, values)
    elif type == CLIENT_METRICS:
        update.validate_client_metrics(values)


def _bad_request(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)

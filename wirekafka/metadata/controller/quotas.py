"""Client quotas of users, client ids and IP addresses: changes and filters (KIP-546)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import (
    ControllerCommand,
    ControllerState,
    Decision,
    bounded,
)
from wirekafka.metadata.image.security import SecurityImage
from wirekafka.protocol.records.metadata import ClientQuotaRecord
from wirekafka.quotas.address_quotas import is_address
from wirekafka.quotas.client_quotas import ClientQuotas
from wirekafka.quotas.precedence import CLIENT_ID, IP, USER, Entity
from wirekafka.runtime.machine import command
from wirekafka.runtime.observation import Committed

EXACT, DEFAULT, ANY = 0, 1, 2
"""The match types of a filter's component."""

_FRACTIONAL = frozenset({"request_percentage", "controller_mutation_rate"})
_OF_CLIENTS = _FRACTIONAL | {"producer_byte_rate", "consumer_byte_rate"}
_OF_ADDRESSES = frozenset({"connection_creation_rate"})
# In which order Kafka lists up to three quotas of a user or a client id, and all four.
_ORDER_OF_THREE = (
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
    "producer_byte_rate",
)
_ORDER_OF_FOUR = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
)
_HOST = re.compile(r"[0-9A-Za-z_.:%\-]+")
_LARGEST_INT = 2**31 - 1
_LARGEST_LONG = 2**63 - 1
_ROUNDING = 1e-6
"""The largest deviation from a whole number that Kafka accepts for an integral quota."""


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """New quotas of one entity by name; None removes a quota."""

    entity: Entity
    values: Mapping[str, float | None]
    repeats_key: bool = False
    """Whether the request names a quota twice."""


@command
class AlterQuotas(ControllerCommand[dict[Entity, KafkaError | None]]):
    """Change quotas, independently for each entity; the reply maps entities to an error or None."""

    changes: Sequence[QuotaChange]
    validate_only: bool = False
    unknown_hosts: Container[str] = ()
    """The names by `host_of` without an address."""

    def decide(
        self, state: ControllerState, now_ms: int
    ) -> Decision[dict[Entity, KafkaError | None]]:
        """Return a record for each quota that changes."""
        records: list[Message] = []
        reply: dict[Entity, KafkaError | None] = {}
        repeated = set[Entity]()
        present = state.image.security
        for change in self.changes:
            if change.entity in repeated:
                continue
            if change.entity in reply or change.repeats_key:
                repeated.add(change.entity)
                names = ", ".join(f"{kind}={name}" for kind, name in change.entity)
                reply[change.entity] = _invalid(
                    f"Ignoring duplicate entity ClientQuotaEntity(entries={{{names}}})"
                )
                continue
            try:
                records += _changed(change, self.unknown_hosts, present)
                reply[change.entity] = None
            except KafkaError as error:
                reply[change.entity] = error
        return Decision(() if self.validate_only else bounded(records), reply)


def host_of(change: QuotaChange) -> str | None:
    """Return the host name in place of an IP address, if any."""
    for kind, name in change.entity:
        if kind == IP and name and _HOST.fullmatch(name) and not is_address(name):
            return name
    return None


def _changed(
    change: QuotaChange, unknown_hosts: Container[str], present: SecurityImage
) -> list[Message]:
    allowed = _allowed(change.entity, unknown_hosts)
    records: list[Message] = []
    for key, value in change.values.items():
        if value is not None:
            if key not in allowed:
                raise _invalid(f"Invalid configuration key {key}")
            _check(key, value)
        if present.quota(change.entity, key) != value:
            records.append(
                ClientQuotaRecord(
                    entity=[
                        ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in change.entity
                    ],
                    key=key,
                    value=value or 0.0,
                    remove=value is None,
                )
            )
    return records


def _allowed(entity: Entity, unknown_hosts: Container[str]) -> frozenset[str]:
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    types = {kind for kind, _ in entity}
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in types:
        return _OF_CLIENTS
    if len(types) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with "
            "User or ClientId"
        )
    [(_, address)] = entity
    if address is not None and (not _HOST.fullmatch(address) or address in unknown_hosts):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check(key: str, value: float) -> None:
    if not math.isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if key in _FRACTIONAL:
        return
    if key in _OF_ADDRESSES and value > _LARGEST_INT:
        raise _invalid(f"Proposed value for {key} is too large for an INT.")
    if value > _LARGEST_LONG:
        raise _invalid(f"Proposed value for {key} is too large for a LONG.")
    if abs(value - math.floor(value + 0.5)) > _ROUNDING:
        raise _invalid(f"{key} cannot be a fractional value.")


class Component(NamedTuple):
    """One condition on an entity: its type, the match type, and the name to match."""

    kind: str
    how: int
    name: str | None


def filter_of(components: Sequence[Component], *, strict: bool) -> Callable[[Entity], bool]:
    """Return what decides whether an entity matches every component.

    `strict` leaves out entities with further types. Raises INVALID_REQUEST or UNSUPPORTED_VERSION
    for an invalid filter.
    """
    wanted: dict[str, Component] = {}
    for component in components:
        _check_component(component)
        if component.kind in wanted:
            raise _invalid(
                f"Entity type {component.kind} cannot appear more than once in the filter."
            )
        wanted[component.kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component."
        )
    return lambda entity: _matches(dict(entity), wanted, strict)


def _check_component(component: Component) -> None:
    kind, how, name = component
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind not in (USER, CLIENT_ID, IP):
        raise KafkaError(Error.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if how == EXACT and name is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if how in (DEFAULT, ANY) and name is not None:
        spelled = "DEFAULT" if how == DEFAULT else "SPECIFIED"
        raise _invalid(
            f"Request specified MATCH_TYPE_{spelled}, but also specified a match string."
        )
    if how not in (EXACT, DEFAULT, ANY):
        raise _invalid(f"Unknown match type {how}")


def _matches(
    entity: Mapping[str, str | None], wanted: Mapping[str, Component], strict: bool
) -> bool:
    if not wanted.keys() <= entity.keys() or (strict and len(wanted) != len(entity)):
        return False
    # A name of None, as in DEFAULT, matches the default entity.
    return all(how == ANY or entity[kind] == name for kind, how, name in wanted.values())


def entity_of(record: ClientQuotaRecord) -> Entity:
    """The entity whose quota a record sets."""
    return in_order({part.entity_type: part.entity_name for part in record.entity})


def enforce(quotas: ClientQuotas, committed: Committed) -> ClientQuotas | None:
    """Apply the quotas in a batch of metadata or a snapshot to a node's enforced quotas.

    Returns the enforced quotas, or None if none is left.
    """
    if committed.is_snapshot:
        quotas.clear()
    for record in committed.records:
        if isinstance(record, ClientQuotaRecord):
            entity = tuple((part.entity_type, part.entity_name) for part in record.entity)
            quotas.change(entity, record.key, None if record.remove else record.value)
    return quotas or None


def in_order(parts: Mapping[str, str | None]) -> Entity:
    """Return an entity's types with their names, in Kafka's order."""
    return tuple(sorted(parts.items(), key=_by_type))


def _by_type(part: tuple[str, str | None]) -> str:
    return part[0]


def listed(values: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return an entity's quotas in the order in which Kafka lists them, which clients rely on.

    It is the order of a hash table whose size follows from the number of quotas.
    """
    order = _ORDER_OF_THREE if len(values) < len(_ORDER_OF_FOUR) else _ORDER_OF_FOUR
    known = [(key, values[key]) for key in order if key in values]
    return known + [(key, value) for key, value in values.items() if key not in order]


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)

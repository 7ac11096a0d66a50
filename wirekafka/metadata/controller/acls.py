"""Creation and deletion of ACLs (KIP-140, KIP-801)."""

from __future__ import annotations

from collections.abc import Sequence

from wirekafka.codec.message import Message
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import (
    MOST_RECORDS_PER_BATCH,
    ControllerCommand,
    ControllerState,
    Decision,
    bounded,
)
from wirekafka.protocol.records.metadata import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from wirekafka.runtime.machine import command
from wirekafka.security.acl import (
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    parsed_range,
)

_RANGES_SINCE = 32
"""The metadata.version 4.4-IV1, whose brokers all understand ranges of addresses."""


@command
class CreateAcls(ControllerCommand[list[KafkaError | None]]):
    """Add ACLs; the reply is an error or None for each. An existing ACL is no error."""

    acls: Sequence[Acl]

    def decide(self, state: ControllerState, now_ms: int) -> Decision[list[KafkaError | None]]:
        """Return a record for each valid ACL that is new."""
        known = state.image.security.acl_index
        ranges = state.image.metadata_version >= _RANGES_SINCE
        records: list[Message] = []
        reply: list[KafkaError | None] = []
        new: set[Acl] = set()
        for acl in self.acls:
            try:
                _check(acl, allows_ranges=ranges)
            except KafkaError as error:
                reply.append(error)
                continue
            reply.append(None)
            if acl not in known and acl not in new:
                new.add(acl)
                records.append(_record(state.new_id(), acl))
        return Decision(bounded(records), reply)


@command
class DeleteAcls(ControllerCommand[list[Sequence[Acl] | KafkaError]]):
    """Remove the ACLs that filters select; the reply is, for each, its ACLs or an error."""

    filters: Sequence[AclFilter]

    def decide(
        self, state: ControllerState, now_ms: int
    ) -> Decision[list[Sequence[Acl] | KafkaError]]:
        """Return a record for each ACL that at least one filter selects."""
        removed: dict[bytes, Message] = {}
        reply: list[Sequence[Acl] | KafkaError] = []
        for wanted in self.filters:
            if wanted.has_unknown_pattern or wanted.has_unknown_entry:
                part = "patternFilter" if wanted.has_unknown_pattern else "entryFilter"
                reply.append(_invalid(f"Unknown {part}."))
                continue
            found = list(state.image.security.acl_index.matching(wanted))
            removed.update({id: RemoveAccessControlEntryRecord(id=id) for id, _ in found})
            if len(removed) > MOST_RECORDS_PER_BATCH:
                raise KafkaError(
                    Error.POLICY_VIOLATION,
                    f"Cannot remove more than {MOST_RECORDS_PER_BATCH} acls in a single delete "
                    "operation.",
                )
            reply.append([acl for _, acl in found])
        return Decision(list(removed.values()), reply)


def _check(acl: Acl, *, allows_ranges: bool) -> None:
    if acl.resource_type <= ResourceType.ANY:
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation <= Operation.ANY:
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {acl.permission.name}")
    if not acl.resource_name:
        raise _invalid("Resource name should not be empty")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    _check_host(acl.host, allows_ranges=allows_ranges)


def _check_host(host: str, *, allows_ranges: bool) -> None:
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    if host == WILDCARD or "/" not in host:
        return
    if not allows_ranges:
        raise KafkaError(
            Error.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    try:
        parsed_range(host)
    except ValueError as error:
        raise _invalid(f"Invalid CIDR notation '{host}': {error}") from None


def _record(id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)

"""The security part of the image: ACLs, SCRAM credentials, client quotas, delegation tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wirekafka.protocol.records import metadata as r
from wirekafka.security.acl import Acl, Operation, PatternType, Permission, ResourceType, of_code
from wirekafka.security.acl_index import AclIndex


class SecurityImage:
    """The latest record of each ACL, credential, quota and token."""

    def __init__(self) -> None:
        self.acls: dict[bytes, r.AccessControlEntryRecord] = {}
        self.acl_index = AclIndex()
        """The same ACLs as an authorizer needs them; empty in a frozen copy."""
        self.scram: dict[tuple[str, int], r.UserScramCredentialRecord] = {}
        self.quotas: dict[tuple[Any, ...], r.ClientQuotaRecord] = {}
        self.tokens: dict[str, r.DelegationTokenRecord] = {}

    def replay(self, record: Any) -> None:
        """Apply one record. Raises AssertionError for a record of another type."""
        match record:
            case r.AccessControlEntryRecord():
                self.acls[record.id] = record
                self.acl_index.add(record.id, acl_of(record))
            case r.RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
                self.acl_index.remove(record.id)
            case r.UserScramCredentialRecord():
                self.scram[record.name, record.mechanism] = record
            case r.RemoveUserScramCredentialRecord():
                self.scram.pop((record.name, record.mechanism), None)
            case r.DelegationTokenRecord():
                self.tokens[record.token_id] = record
            case r.RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)
            case r.ClientQuotaRecord():
                self._replay_quota(record)
            case _:
                raise AssertionError(f"no part of the image applies {type(record).__name__}")

    def _replay_quota(self, record: r.ClientQuotaRecord) -> None:
        key = _quota_key(
            [(part.entity_type, part.entity_name) for part in record.entity], record.key
        )
        if record.remove:
            self.quotas.pop(key, None)
        else:
            self.quotas[key] = record

    def quota(self, entity: Sequence[tuple[str, str | None]], name: str) -> float | None:
        """One quota of an entity, which consists of types with names; None if it is not set."""
        record = self.quotas.get(_quota_key(entity, name))
        return None if record is None else record.value

    def frozen(self) -> SecurityImage:
        """A copy that stays unchanged while this image changes."""
        frozen = SecurityImage()
        frozen.acls, frozen.scram = dict(self.acls), dict(self.scram)
        frozen.quotas, frozen.tokens = dict(self.quotas), dict(self.tokens)
        return frozen

    def copied(self) -> SecurityImage:
        """A copy on which further records can be replayed, its ACLs indexed."""
        copied = self.frozen()
        for id, record in copied.acls.items():
            copied.acl_index.add(id, acl_of(record))
        return copied

    def before_producer_ids(self) -> Iterator[Any]:
        """The records that Kafka's snapshots have before the producer ids."""
        yield from self.quotas.values()

    def after_producer_ids(self) -> Iterator[Any]:
        """The records that Kafka's snapshots have after the producer ids."""
        yield from self.acls.values()
        yield from self.scram.values()
        yield from self.tokens.values()


def _quota_key(entity: Sequence[tuple[str, str | None]], name: str) -> tuple[Any, ...]:
    return *sorted([(kind, text or "", text is None) for kind, text in entity]), name


def acl_of(record: r.AccessControlEntryRecord) -> Acl:
    """The ACL in a record, or in anything else with the same fields."""
    return Acl(
        of_code(ResourceType, record.resource_type),
        record.resource_name,
        of_code(PatternType, record.pattern_type),
        record.principal,
        record.host,
        of_code(Operation, record.operation),
        of_code(Permission, record.permission_type),
    )

"""ACLs, SCRAM credentials, quotas and tokens in the metadata: kept whole for who serves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wirekafka.metadata import records as r


class SecurityImage:
    """Records by what they are about, so that no snapshot loses them."""

    def __init__(self) -> None:
        self.acls: dict[bytes, r.AccessControlEntryRecord] = {}
        self.scram: dict[tuple[str, int], r.UserScramCredentialRecord] = {}
        self.quotas: dict[tuple[Any, ...], r.ClientQuotaRecord] = {}
        self.tokens: dict[str, r.DelegationTokenRecord] = {}

    def replay(self, record: Any) -> None:
        """Take in one record; asserts that it is one of these."""
        match record:
            case r.AccessControlEntryRecord():
                self.acls[record.id] = record
            case r.RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
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
                raise AssertionError(f"no part of the image takes {type(record).__name__}")

    def _replay_quota(self, record: r.ClientQuotaRecord) -> None:
        entity = sorted((part.entity_type, part.entity_name or "", part.entity_name is None)
                        for part in record.entity)
        key = (*entity, record.key)
        if record.remove:
            self.quotas.pop(key, None)
        else:
            self.quotas[key] = record

    def before_producer_ids(self) -> Iterator[Any]:
        """What Kafka's snapshots hold ahead of the producer ids."""
        yield from self.quotas.values()

    def after_producer_ids(self) -> Iterator[Any]:
        """What Kafka's snapshots hold behind them."""
        yield from self.acls.values()
        yield from self.scram.values()
        yield from self.tokens.values()

"""Feature levels: the supported levels, the levels of a new cluster, and updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.command import ControllerCommand, ControllerState, Decision
from wirekafka.metadata.image.framing import ELR_FEATURE, METADATA_FEATURE
from wirekafka.metadata.image.image import BROKER
from wirekafka.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from wirekafka.replication.raft.voter_set import KRAFT_FEATURE
from wirekafka.runtime.machine import command

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_FEATURE: (7, 33),
    KRAFT_FEATURE: (0, 1),
    ELR_FEATURE: (0, 1),
    "group.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""The supported range of each feature, as a Kafka 4.4 node registers it. Unstable levels of
metadata.version (34 is 4.5-IV0) are left out: Kafka offers them only to test clusters."""

_TRANSACTIONS_SINCE = 13
"""The metadata.version (3.6-IV1) from which there are metadata transactions (KIP-868)."""
_ELR_SINCE = 23
"""The metadata.version (4.0-IV1) that eligible leader replicas need."""

_CHANGES_METADATA = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""Levels of metadata.version that changed the format of records: Kafka refuses a downgrade below
one of these (KIP-778)."""

INITIAL: dict[str, int] = {
    METADATA_FEATURE: 33,
    ELR_FEATURE: 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels with which Kafka 4.4 formats a new cluster."""


def bootstrap_features() -> list[Message]:
    """The feature records of a new cluster, which a freshly formatted directory contains."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL.items()]


@command
class Bootstrap(ControllerCommand[None]):
    """Write the first records of a new cluster, in one metadata transaction (KIP-868)."""

    features: Sequence[Message]

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return the records; none if the log has features already."""
        if state.image.features:
            return Decision((), None)
        levels = {
            record.name: record.feature_level
            for record in self.features
            if isinstance(record, FeatureLevelRecord)
        }
        records = list(self.features)
        if levels.get(ELR_FEATURE):
            records.append(cluster_min_isr(state.config))
        if levels.get(METADATA_FEATURE, 0) < _TRANSACTIONS_SINCE:
            return Decision(records, None)
        begin = BeginTransactionRecord(name="Bootstrap records")
        return Decision([begin, *records, EndTransactionRecord()], None)


@command
class AbortTransaction(ControllerCommand[None]):
    """Abort a metadata transaction that a crashed controller left open."""

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return the abort record; none if no transaction is open."""
        if not state.image.in_transaction:
            return Decision((), None)
        return Decision([AbortTransactionRecord(reason="Controller failover")], None)


def cluster_min_isr(config: BrokerConfig) -> ConfigRecord:
    """The record of the cluster's minimum ISR, which eligible leader replicas require."""
    return ConfigRecord(
        resource_type=BROKER,
        resource_name="",
        name="min.insync.replicas",
        value=str(config.min_insync_replicas),
    )


class UpgradeType(IntEnum):
    """The upgrade type of UpdateFeatures: whether a downgrade is allowed, and may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True)
class FeatureUpdate:
    """A new level for a feature; 0 removes it."""

    name: str
    level: int
    upgrade_type: int


@command
class UpdateFeatures(ControllerCommand[None]):
    """Change levels, all or none; raises the error of the first update that is invalid.

    `kraft_version` is the level of the quorum, which is validated here but changed by the quorum.
    """

    updates: Sequence[FeatureUpdate]
    validate_only: bool = False
    kraft_version: int = 0

    def decide(self, state: ControllerState, now_ms: int) -> Decision[None]:
        """Return feature records, and the config records that a feature requires."""
        records: list[Message] = []
        wanted = {METADATA_FEATURE: 0, **state.image.features}
        wanted |= {update.name: update.level for update in self.updates}
        for update in self.updates:
            current = state.image.features.get(update.name, 0)
            if update.name == KRAFT_FEATURE:
                current = self.kraft_version
            _check(update, current, wanted, state)
            records += _update(update, state)
        return Decision(() if self.validate_only else records, None)


def _update(update: FeatureUpdate, state: ControllerState) -> list[Message]:
    if update.name == KRAFT_FEATURE:
        return []
    records: list[Message] = [FeatureLevelRecord(name=update.name, feature_level=update.level)]
    has_min_isr = "min.insync.replicas" in state.image.config(BROKER, "")
    if update.name == ELR_FEATURE and update.level > 0 and not has_min_isr:
        records.append(cluster_min_isr(state.config))
    return records


def _check(
    update: FeatureUpdate, current: int, wanted: Mapping[str, int], state: ControllerState
) -> None:
    """Raise INVALID_UPDATE_VERSION with Kafka's message; `wanted` are the levels afterwards."""
    if update.upgrade_type not in tuple(UpgradeType):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    for node, ranges in _nodes(state):
        reason = _unsupported(node, update, *ranges.get(update.name, (0, 0)))
        if reason:
            raise _invalid(update, reason)
    for id in sorted(state.voters()):
        if id != state.config.node_id and id not in state.image.controllers:
            raise _invalid(
                update, f"controller {id} has not registered, and may not support this feature"
            )
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the "
            "upgrade type to either safe or unsafe downgrade.",
        )
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if update.name not in SUPPORTED:
        raise _invalid(update, f"Feature {update.name} not found.")
    if update.name == ELR_FEATURE and update.level and wanted[METADATA_FEATURE] < _ELR_SINCE:
        raise _invalid(
            update,
            f"{update.name} could not be set to {update.level} because it depends on "
            f"metadata.version={_ELR_SINCE} (4.0-IV1)",
        )
    if update.name == METADATA_FEATURE and any(
        level in _CHANGES_METADATA for level in range(update.level + 1, current + 1)
    ):
        raise _refused_downgrade(update, current)
    if update.name == KRAFT_FEATURE and update.level < current:
        raise _invalid(update, "Can't downgrade the version of this feature.")


def _nodes(state: ControllerState) -> Iterator[tuple[str, Mapping[str, tuple[int, int]]]]:
    """All nodes with the feature levels that they support, in the order of Kafka's checks."""
    own = state.config.node_id
    yield f"Local controller {own}", SUPPORTED
    for id, broker in sorted(state.image.brokers.items()):
        yield f"Broker {id}", _ranges(broker.registration.features)
    for id, controller in sorted(state.image.controllers.items()):
        if id != own:
            yield f"Controller {id}", _ranges(controller.features)


def _ranges(features: Iterable[Any]) -> dict[str, tuple[int, int]]:
    return {
        each.name: (each.min_supported_version, each.max_supported_version) for each in features
    }


def _unsupported(node: str, update: FeatureUpdate, first: int, last: int) -> str | None:
    if first <= update.level <= last:
        return None
    if last == 0:
        return f"{node} does not support this feature."
    return f"{node} only supports versions {first if first == last else f'{first}-{last}'}"


def _invalid(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(
        Error.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )


def _refused_downgrade(update: FeatureUpdate, current: int) -> KafkaError:
    # The log may have records that a lower version cannot decode.
    reason = (
        "Refusing to perform the requested downgrade because it might delete metadata information."
        if update.upgrade_type == UpgradeType.SAFE_DOWNGRADE
        else "Unsafe metadata downgrade is not supported in this version."
    )
    return KafkaError(
        Error.INVALID_UPDATE_VERSION,
        f"Unsupported metadata.version downgrade from {current} to {update.level}. {reason}",
    )

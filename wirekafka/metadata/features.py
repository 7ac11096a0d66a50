"""Features: what levels this version supports, what a new cluster starts at, and upgrades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from wirekafka.codec.message import Message
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.command import ControllerState, Decision
from wirekafka.metadata.framing import ELR_FEATURE, METADATA_FEATURE
from wirekafka.metadata.image import BROKER
from wirekafka.metadata.records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

KRAFT_FEATURE = "kraft.version"

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_FEATURE: (7, 30),
    KRAFT_FEATURE: (0, 1),
    ELR_FEATURE: (0, 1),
    "group.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""Level ranges of a 4.3 node, as it registers them."""

INITIAL: dict[str, int] = {
    METADATA_FEATURE: 30,
    ELR_FEATURE: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What Kafka 4.3 formats a new cluster with."""


def bootstrap_features() -> list[Message]:
    """The feature records of a new cluster, also what `bootstrap.checkpoint` holds."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL.items()]


@dataclass(frozen=True)
class Bootstrap:
    """Make an empty metadata log a cluster, in one metadata transaction (KIP-868)."""

    features: Sequence[Message]

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Nothing if there is a cluster already."""
        if state.image.features:
            return Decision(())
        levels = {record.name: record.feature_level
                  for record in self.features if isinstance(record, FeatureLevelRecord)}
        records: list[Message] = [BeginTransactionRecord(name="Bootstrap records"), *self.features]
        if levels.get(ELR_FEATURE):
            records.append(cluster_min_isr(state.config))
        return Decision([*records, EndTransactionRecord()])


def cluster_min_isr(config: BrokerConfig) -> ConfigRecord:
    """Eligible leader replicas need one minimum ISR for the whole cluster, on record."""
    return ConfigRecord(resource_type=BROKER, resource_name="", name="min.insync.replicas",
                        value=str(config.min_insync_replicas))


class UpgradeType(IntEnum):
    """Whether a level may go down, and whether information may get lost by it."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True)
class FeatureUpdate:
    """A feature to be at `level`; 0 removes it."""

    name: str
    level: int
    upgrade_type: int


@dataclass(frozen=True)
class UpdateFeatures:
    """Change levels, all or none; raises what the first refused one is refused for.

    `kraft_version` is what the quorum is at: that level is the quorum's own to change.
    """

    updates: Sequence[FeatureUpdate]
    validate_only: bool = False
    kraft_version: int = 0

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Feature records, and the configs that a feature needs."""
        records: list[Message] = []
        for update in self.updates:
            records += _update(update, state, self.kraft_version)
        return Decision(() if self.validate_only else records)


def _update(update: FeatureUpdate, state: ControllerState, kraft_version: int) -> list[Message]:
    is_quorums = update.name == KRAFT_FEATURE
    current = kraft_version if is_quorums else state.image.features.get(update.name, 0)
    _check(update, current, state.config.node_id)
    if update.level == current or is_quorums:
        return []
    records: list[Message] = [
        FeatureLevelRecord(name=update.name, feature_level=update.level)]
    has_min_isr = "min.insync.replicas" in state.image.config(BROKER, "")
    if update.name == ELR_FEATURE and update.level > 0 and not has_min_isr:
        records.append(cluster_min_isr(state.config))
    return records


def _check(update: FeatureUpdate, current: int, node_id: int) -> None:
    """Raises INVALID_UPDATE_VERSION, in Kafka's words."""
    if update.upgrade_type not in tuple(UpgradeType):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.name not in SUPPORTED:
        raise _invalid(update, f"Local controller {node_id} does not support this feature.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    first, last = SUPPORTED[update.name]
    removes = update.level == 0 and update.name != METADATA_FEATURE
    if not removes and not first <= update.level <= last:
        raise _invalid(update, f"Local controller {node_id} only supports versions {first}-{last}")
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade the version of this feature without setting the "
                       "upgrade type to either safe or unsafe downgrade.")
    if update.name == METADATA_FEATURE and update.level < current:
        raise _refused_downgrade(update, current)
    if update.name == KRAFT_FEATURE and update.level < current:
        raise _invalid(update, "Can't downgrade the version of this feature.")


def _invalid(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(Error.INVALID_UPDATE_VERSION,
                      f"Invalid update version {update.level} for feature {update.name}. {reason}")


def _refused_downgrade(update: FeatureUpdate, current: int) -> KafkaError:
    # The log may hold records that a lower version does not know.
    reason = ("Refusing to perform the requested downgrade because it might delete metadata "
              "information." if update.upgrade_type == UpgradeType.SAFE_DOWNGRADE
              else "Unsafe metadata downgrade is not supported in this version.")
    return KafkaError(Error.INVALID_UPDATE_VERSION,
                      f"Unsupported metadata.version downgrade from {current} to {update.level}. "
                      f"{reason}")

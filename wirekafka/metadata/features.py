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

# Levels of metadata.version by the release that brought them, as messages name them.
_RELEASES = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0",
    13: "3.6-IV1", 14: "3.6-IV2", 15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3",
    19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2",
    25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
}


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
    """Change levels, all or none; raises what the first refused one is refused for."""

    updates: Sequence[FeatureUpdate]
    validate_only: bool = False

    def decide(self, state: ControllerState, now_ms: int) -> Decision:
        """Feature records, and the configs that a feature needs."""
        records: list[Message] = []
        for update in self.updates:
            records += _update(update, state)
        return Decision(() if self.validate_only else records)


def _update(update: FeatureUpdate, state: ControllerState) -> list[Message]:
    def refuse(reason: str) -> KafkaError:
        return KafkaError(Error.INVALID_UPDATE_VERSION,
                          f"Invalid update version {update.level} for feature {update.name}. "
                          f"{reason}")

    current = state.image.features.get(update.name, 0)
    if update.upgrade_type not in tuple(UpgradeType):
        raise refuse("The controller does not support the given upgrade type.")
    supported = SUPPORTED.get(update.name)
    if supported is None:
        raise refuse("Local controller 1 does not support this feature.".replace(
            " 1 ", f" {state.config.node_id} "))
    first, last = supported
    if update.level != 0 and not first <= update.level <= last:
        raise refuse(f"Local controller {state.config.node_id} only supports versions "
                     f"{first}-{last}")
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise refuse("Can't downgrade the version of this feature without setting the upgrade "
                     "type to either safe or unsafe downgrade.")
    if update.name == METADATA_FEATURE and update.level < current:
        raise _refused_downgrade(update, current)
    if update.level == current:
        return []
    records: list[Message] = [
        FeatureLevelRecord(name=update.name, feature_level=update.level)]
    has_min_isr = "min.insync.replicas" in state.image.config(BROKER, "")
    if update.name == ELR_FEATURE and update.level > 0 and not has_min_isr:
        records.append(cluster_min_isr(state.config))
    return records


def _refused_downgrade(update: FeatureUpdate, current: int) -> KafkaError:
    # Records of higher versions may be in the log; Kafka itself writes no lower image yet.
    low = _RELEASES.get(update.level, str(update.level))
    high = _RELEASES.get(current, str(current))
    return KafkaError(Error.INVALID_UPDATE_VERSION,
                      f"Invalid metadata.version {update.level}. Unsafe metadata downgrade is not "
                      f"supported in this version ({high} to {low}).")

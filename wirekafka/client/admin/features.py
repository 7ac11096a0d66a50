"""Features of a cluster (KIP-584): their levels, and names of releases for metadata.version."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from wirekafka.client.client import Client, CliError, check
from wirekafka.protocol.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

METADATA_VERSION = "metadata.version"
_HAS_DRY_RUN = 1
"""From this version on, UpdateFeatures has types of change, and can validate only."""

_LEVELS = {
    "3.3-IV3": 7,
    "3.4-IV0": 8,
    "3.5-IV0": 9,
    "3.5-IV1": 10,
    "3.5-IV2": 11,
    "3.6-IV0": 12,
    "3.6-IV1": 13,
    "3.6-IV2": 14,
    "3.7-IV0": 15,
    "3.7-IV1": 16,
    "3.7-IV2": 17,
    "3.7-IV3": 18,
    "3.7-IV4": 19,
    "3.8-IV0": 20,
    "3.9-IV0": 21,
    "4.0-IV0": 22,
    "4.0-IV1": 23,
    "4.0-IV2": 24,
    "4.0-IV3": 25,
    "4.1-IV0": 26,
    "4.1-IV1": 27,
    "4.2-IV0": 28,
    "4.2-IV1": 29,
    "4.3-IV0": 30,
    "4.4-IV0": 31,
    "4.4-IV1": 32,
    "4.4-IV2": 33,
    "4.5-IV0": 34,
}
"""The levels of metadata.version by the names in Kafka 4.4's `MetadataVersion`."""
_NAMES = {level: name for name, level in _LEVELS.items()}


class ChangeKind(IntEnum):
    """The type of a change of levels; an unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def level_of(feature: str, text: str) -> int:
    """The level that a text names: a number or, for metadata.version, a release such as 4.0.

    A release is its last level. Raises CliError.
    """
    if text.isascii() and text.isdigit() and len(text) < 6:
        return int(text)
    if feature != METADATA_VERSION:
        raise CliError(f"bad level {text!r} of {feature}: expected a number")
    # 3.3 and 3.3.1 are the same to the cluster, whose level depends on the minor release.
    release = ".".join(text.split("-")[0].split(".")[:2])
    levels = [level for name, level in _LEVELS.items() if name.split("-")[0] == release]
    level = _LEVELS.get(text) if "-" in text else max(levels, default=None)
    if level is None:
        raise CliError(f"bad level {text!r} of {feature}: expected a number or a release, as 4.0")
    return level


def level_name(feature: str, level: int) -> str | None:
    """Kafka's name for a level of metadata.version; None for other features and unknown levels."""
    return _NAMES.get(level) if feature == METADATA_VERSION else None


def newest_release(supported: Mapping[str, tuple[int, int]]) -> str | None:
    """The minor release whose metadata.version is the highest of these; None if it is not known."""
    name = level_name(METADATA_VERSION, supported.get(METADATA_VERSION, (0, 0))[1])
    return name and name.split("-")[0]


def update_features(
    client: Client, levels: Mapping[str, int], kind: ChangeKind, *, dry_run: bool
) -> None:
    """Change levels, all or none; level 0 removes a feature. Raises CliError."""
    version = client.any().version_of(UpdateFeaturesRequest)
    if version < _HAS_DRY_RUN:
        if dry_run:
            raise CliError("the broker is too old to validate a change of features only")
        if kind is ChangeKind.UNSAFE_DOWNGRADE:
            raise CliError("the broker is too old for unsafe downgrades of features")
    update = UpdateFeaturesRequest.FeatureUpdateKey
    request = UpdateFeaturesRequest(
        feature_updates=[
            update(
                feature=name,
                max_version_level=level,
                allow_downgrade=kind is not ChangeKind.UPGRADE,
                upgrade_type=kind,
            )
            for name, level in levels.items()
        ],
        validate_only=dry_run,
    )
    response = client.send(request, UpdateFeaturesResponse)
    check(response.error_code, "features", response.error_message)
    for result in response.results:
        check(result.error_code, result.feature, result.error_message)

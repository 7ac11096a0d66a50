"""UpdateFeatures: sets finalized feature levels (KIP-584).

v1: validation only, and upgrade types (KIP-778).
"""

from __future__ import annotations

from wirekafka.apis.registry import ControllerCall, api
from wirekafka.codec.message import Bool, Int8, Int16, Int32, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.features import KRAFT_FEATURE, FeatureUpdate, UpgradeType
from wirekafka.metadata.features import UpdateFeatures as Update
from wirekafka.security.acl import ALTER, CLUSTER


class UpdateFeaturesRequest(Request, key=57, versions="0-2", flexible="0+"):
    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field("1+")

    class FeatureUpdateKey(Part):
        feature: String
        max_version_level: Int16
        allow_downgrade: Bool = field("0")
        upgrade_type: Int8 = field("1+", default=1)


class UpdateFeaturesResponse(Response, answers=UpdateFeaturesRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
    results: list[UpdatableFeatureResult] = field("0-1")

    class UpdatableFeatureResult(Part):
        feature: String
        error_code: Int16
        error_message: String | None = field(default="")


_Key = UpdateFeaturesRequest.FeatureUpdateKey


@api(UpdateFeaturesRequest, UpdateFeaturesResponse, forwarded=True)
async def update_features(
    request: UpdateFeaturesRequest, call: ControllerCall
) -> UpdateFeaturesResponse:
    """Finalize all of the given feature levels, or none if one fails."""
    call.authorize(ALTER, CLUSTER)
    updates = [
        FeatureUpdate(key.feature, key.max_version_level, _upgrade_type(key))
        for key in request.feature_updates
    ]
    quorum = call.controller.quorum
    try:
        await call.controller.submit(Update(updates, request.validate_only, quorum.kraft_version))
    except KafkaError as error:
        raise KafkaError(
            error.error,
            "The update failed for all features since the following "
            f"feature had an error: {error.message}",
        ) from error
    # kraft.version is stored in the quorum's control records, with the voters (KIP-853).
    wanted = max((each.level for each in updates if each.name == KRAFT_FEATURE), default=0)
    if wanted > quorum.kraft_version and not request.validate_only:
        await call.controller.keep_voters()
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=key.feature, error_message=Error.NONE.name
            )
            for key in request.feature_updates
        ],
    )


def _upgrade_type(key: _Key) -> int:
    return UpgradeType.SAFE_DOWNGRADE if key.allow_downgrade else key.upgrade_type

"""UpdateFeatures: sets finalized feature levels (KIP-584).

v1: validation only, and upgrade types (KIP-778).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import ControllerCall
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.features import FeatureUpdate, UpgradeType
from wirekafka.metadata.controller.features import UpdateFeatures as Update
from wirekafka.protocol.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from wirekafka.replication.raft.voter_set import KRAFT_FEATURE
from wirekafka.security.acl import ALTER, CLUSTER

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

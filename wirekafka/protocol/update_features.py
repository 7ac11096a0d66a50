"""UpdateFeatures: sets finalized feature levels (KIP-584)."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Int8, Int16, Int32, Part, Request, Response, String, field


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

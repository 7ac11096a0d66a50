"""ApiVersions: tells a client which APIs, versions and features there are;
v3: client name (KIP-511), features (KIP-584).
"""

from __future__ import annotations

import re

from wirekafka.apis import registry
from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import (
    Bool,
    Int16,
    Int32,
    Int64,
    Part,
    Request,
    Response,
    String,
    field,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.features import KRAFT_FEATURE, SUPPORTED


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: String = field("3+")
    client_software_version: String = field("3+")


class ApiVersionsResponse(Response, answers=ApiVersionsRequest):
    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field("1+")
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2)
    zk_migration_ready: Bool = field("3+", tag=3)

    class ApiVersion(Part):
        api_key: Int16
        min_version: Int16
        max_version: Int16

    class SupportedFeatureKey(Part):
        name: String
        min_version: Int16
        max_version: Int16

    class FinalizedFeatureKey(Part):
        name: String
        max_version_level: Int16
        min_version_level: Int16


_ApiVersion = ApiVersionsResponse.ApiVersion

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What a client may call itself and its version (KIP-511)."""


@api(ApiVersionsRequest, ApiVersionsResponse)
def api_versions(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """Tell every API that is served here with its versions, and the cluster's features."""
    if call.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            raise KafkaError(Error.INVALID_REQUEST)
        call.client_software = (name, version)
    broker = call.broker
    finalized = dict(broker.image.features)
    if broker.quorum.is_dynamic:
        finalized[KRAFT_FEATURE] = broker.quorum.kraft_version
    return ApiVersionsResponse(
        api_keys=[_advertised(declared) for declared in registry.served()],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name=name, min_version=first, max_version=last)
            for name, (first, last) in SUPPORTED.items()
            # Clients before version 4 take a range that starts at 0 for an error (KIP-1022).
            if first > 0 or call.version >= 4],
        finalized_features_epoch=broker.metadata_offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()])


def _advertised(declared: registry.Api) -> _ApiVersion:
    first, last = declared.advertised
    return _ApiVersion(api_key=declared.key, min_version=first, max_version=last)


def api_versions_failure(request: ApiVersionsRequest, error: KafkaError,
                         call: Call) -> ApiVersionsResponse:
    """An unsupported version is told with the versions of this API alone (KIP-511)."""
    if error.error is not Error.UNSUPPORTED_VERSION:
        return ApiVersionsResponse(error_code=error.error)
    spoken = [_advertised(each) for each in registry.served()
              if each.request is ApiVersionsRequest]
    return ApiVersionsResponse(error_code=error.error, api_keys=spoken)

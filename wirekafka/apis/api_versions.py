"""ApiVersions: lists the APIs with their versions, and the features, that this broker supports.

v3: client name and version (KIP-511), features (KIP-584),
v5: the cluster and node that the client means to reach (KIP-1242).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.routes import BROKERS, CONTROLLERS
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.replication.raft.voter_set import KRAFT_FEATURE

_ApiVersion = ApiVersionsResponse.ApiVersion

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The pattern of a valid client software name or version (KIP-511)."""

_NO_NODE = -1
_NO_VERSION = (0, -1)

_APIS_OF_FEATURES = {
    "group.version": frozenset({68, 69}),
    "share.version": frozenset({76, 77, 78, 79}),
    "streams.version": frozenset({88, 89, 93}),
}
"""The keys of the client APIs that a feature announces: clients that see the feature use them
(KIP-848, KIP-932, KIP-1071)."""

_TELEMETRY = frozenset({71, 72})
"""The keys of the APIs of client telemetry (KIP-714)."""


@api(ApiVersionsRequest, ApiVersionsResponse, on_every_listener=True, before_authentication=True)
def api_versions(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """List every API of this listener with its versions, and the cluster's features."""
    if call.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            raise KafkaError(Error.INVALID_REQUEST)
        call.client.software = (name, version)
        # As in Kafka, a client that has to log in is not redirected.
        if call.client.is_authenticated:
            call.authenticated(call.principal)
            _check_destination(request, call)
    if call.client.login is not None:
        call.client.login.versions_sent()
    broker = call.broker
    finalized = dict(broker.image.features)
    if broker.quorum.is_dynamic:
        finalized[KRAFT_FEATURE] = broker.quorum.kraft_version
    return ApiVersionsResponse(
        api_keys=_served(call),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, (first, last) in SUPPORTED.items()
            if _is_served(name)
            # Clients before version 4 reject a range that starts at 0 (KIP-1022).
            if first > 0 or call.version >= 4
        ],
        finalized_features_epoch=broker.metadata_offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in finalized.items()
            if _is_served(name)
        ],
    )


def _check_destination(request: ApiVersionsRequest, call: Call) -> None:
    """Raise REBOOTSTRAP_REQUIRED if the client meant to reach another broker (KIP-1242).

    Controllers serve every client, as in Kafka.

    Clients before version 5, and clients without metadata, name neither cluster nor node.
    """
    cluster_id, node_id = request.cluster_id, request.node_id
    if cluster_id is None and node_id == _NO_NODE:
        return
    if cluster_id is None or node_id == _NO_NODE:
        raise KafkaError(Error.INVALID_REQUEST)
    if call.client.is_for_controllers:
        return
    if (cluster_id, node_id) != (call.broker.cluster_id, call.broker.node_id):
        raise KafkaError(Error.REBOOTSTRAP_REQUIRED)


def _is_served(feature: str) -> bool:
    """Whether clients may see the feature: only if all APIs that it announces are served."""
    return all(BROKERS.serves(key) for key in _APIS_OF_FEATURES.get(feature, ()))


def _served(call: Call) -> list[_ApiVersion]:
    """The APIs of this listener."""
    if call.client.is_for_controllers:
        return [_advertised(declared) for declared in CONTROLLERS.served()]
    measures = call.broker.measures
    # As in Kafka: clients push only where something takes their metrics.
    unused = frozenset() if measures is not None and measures.telemetry else _TELEMETRY
    versions = call.broker.controller_channel.controller_versions
    return [each for each in _served_with(versions) if each.api_key not in unused]


def _served_with(controller: Mapping[int, tuple[int, int]]) -> list[_ApiVersion]:
    """The APIs of brokers' listeners, given the versions of the active controller.

    An API whose requests are forwarded has the versions that both nodes support, and is left out if
    there is none. Without the controller's versions, this node's versions are reported.
    """
    found = []
    for declared in BROKERS.served():
        own = _advertised(declared)
        if declared.is_forwarded and controller:
            first, last = controller.get(declared.key, _NO_VERSION)
            own.min_version = max(own.min_version, first)
            own.max_version = min(own.max_version, last)
        if own.min_version <= own.max_version:
            found.append(own)
    return found


def _advertised(declared: registry.Api) -> _ApiVersion:
    first, last = declared.advertised
    return _ApiVersion(api_key=declared.key, min_version=first, max_version=last)


@failure_of(api_versions)
def api_versions_failure(
    request: ApiVersionsRequest, error: KafkaError, call: Call
) -> ApiVersionsResponse:
    """Report the error; UNSUPPORTED_VERSION comes with this API's own versions (KIP-511)."""
    if error.error is not Error.UNSUPPORTED_VERSION:
        return ApiVersionsResponse(error_code=error.error)
    supported = [
        _advertised(each) for each in BROKERS.served() if each.request is ApiVersionsRequest
    ]
    return ApiVersionsResponse(error_code=error.error, api_keys=supported)

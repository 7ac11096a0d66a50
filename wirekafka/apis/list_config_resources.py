"""ListConfigResources: lists the resources that have dynamic configs (KIP-1142).

v0: client metrics only, as ListClientMetricsResources (KIP-714).
"""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.image import image as resources
from wirekafka.metadata.image.image import MetadataImage
from wirekafka.protocol.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from wirekafka.security.acl import CLUSTER, DESCRIBE_CONFIGS

_Resource = ListConfigResourcesResponse.ConfigResource
_TYPES = (
    resources.TOPIC,
    resources.BROKER,
    resources.BROKER_LOGGER,
    resources.CLIENT_METRICS,
    resources.GROUP,
)


@api(ListConfigResourcesRequest, ListConfigResourcesResponse)
def list_config_resources(
    request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    """List the resources of the requested types; of all types if none is given."""
    call.authorize(DESCRIBE_CONFIGS, CLUSTER)
    types = list(request.resource_types or _TYPES)
    if call.version == 0:
        types = [resources.CLIENT_METRICS]
    if not set(types) <= set(_TYPES):
        raise KafkaError(Error.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            _Resource(resource_name=name, resource_type=type)
            for type in dict.fromkeys(types)
            for name in _names(type, call.broker.image)
        ]
    )


def _names(type: int, image: MetadataImage) -> Iterable[str]:
    if type == resources.TOPIC:
        return image.topics
    if type in (resources.BROKER, resources.BROKER_LOGGER):
        return [str(broker.id) for broker in image.live_brokers()]
    return [name for of, name in image.configs if of == type]

"""ListConfigResources: lists the resources that have dynamic configs (KIP-1142).

v0: client metrics only, as ListClientMetricsResources (KIP-714).
"""

from __future__ import annotations

from collections.abc import Iterable

from wirekafka.apis.registry import Call, api
from wirekafka.codec.message import Int8, Int16, Int32, Part, Request, Response, String, field
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata import image as resources
from wirekafka.metadata.image import MetadataImage
from wirekafka.security.acl import CLUSTER, DESCRIBE_CONFIGS


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[Int8] = field("1+")


class ListConfigResourcesResponse(Response, answers=ListConfigResourcesRequest):
    throttle_time_ms: Int32
    error_code: Int16
    config_resources: list[ConfigResource]

    class ConfigResource(Part):
        resource_name: String
        resource_type: Int8 = field("1+", default=16)


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

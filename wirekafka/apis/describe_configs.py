"""DescribeConfigs: lists the configs of topics, brokers, groups and other resources (KIP-133).

v1: sources and synonyms (KIP-226), v3: types and documentation (KIP-569).
"""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.config_changes import is_integer
from wirekafka.apis.shared.registry import api, failure_of
from wirekafka.apis.shared.turns import Turns
from wirekafka.config import describe, loggers
from wirekafka.config.describe import ConfigEntry, ConfigSource
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.topic_names import check_name
from wirekafka.metadata.image import image as resources
from wirekafka.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wirekafka.security.access import refusal
from wirekafka.security.acl import CLUSTER, DESCRIBE_CONFIGS, GROUP, TOPIC

_Resource = DescribeConfigsRequest.Resource
_Result = DescribeConfigsResponse.Result
_Entry = _Result.ResourceResult
_TYPES = frozenset(
    {
        resources.TOPIC,
        resources.BROKER,
        resources.BROKER_LOGGER,
        resources.CLIENT_METRICS,
        resources.GROUP,
    }
)
_UNKNOWN_TYPE = 0
"""Of the levels of loggers."""
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)


@api(DescribeConfigsRequest, DescribeConfigsResponse, on_every_listener=True)
async def describe_configs(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """List the configs of each resource with their values, sources and synonyms.

    A resource of an unknown type spoils the whole request, as in Kafka.
    """
    if any(each.resource_type not in _TYPES for each in request.resources):
        raise _bad_request(_MALFORMED)
    turns = Turns()
    results = []
    for resource in request.resources:
        result = _describe(resource, request, call)
        results.append(result)
        await turns.step(1 + len(result.configs))
    return DescribeConfigsResponse(results=results)


def _describe(resource: _Resource, request: DescribeConfigsRequest, call: Call) -> _Result:
    result = _Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        _authorize(resource, call)
        entries = _entries(resource, call)
    except KafkaError as error:
        result.error_code = error.error
        result.error_message = error.message or ""
        return result
    wanted = resource.configuration_keys
    result.configs = [
        # An empty list, like null, means every config.
        _response_entry(entry, request)
        for entry in entries
        if not wanted or entry.name in wanted
    ]
    return result


def _authorize(resource: _Resource, call: Call) -> None:
    match resource.resource_type:
        case resources.TOPIC:
            call.authorize(DESCRIBE_CONFIGS, TOPIC, resource.resource_name)
        case resources.GROUP:
            call.authorize(DESCRIBE_CONFIGS, GROUP, resource.resource_name)
        case resources.BROKER | resources.BROKER_LOGGER | resources.CLIENT_METRICS:
            if not call.is_authorized(DESCRIBE_CONFIGS, CLUSTER):
                raise refusal(CLUSTER)


def _entries(resource: _Resource, call: Call) -> list[ConfigEntry]:
    name, config, image = resource.resource_name, call.broker.config, call.broker.image
    match resource.resource_type:
        case resources.TOPIC:
            check_name(name)
            if name not in image.topics:
                raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
            return describe.describe_topic(config, image.config(resources.TOPIC, name))
        case resources.BROKER:
            if not name:
                return describe.describe_broker_defaults(image.config(resources.BROKER, ""))
            _check_is_me(name, call, "expected {} or empty string, but")
            return describe.describe_broker(config)
        case resources.BROKER_LOGGER:
            if not name:
                raise _bad_request("Broker id must not be empty")
            _check_is_me(name, call, "expected {} but")
            return [_logger_entry(*level) for level in loggers.levels().items()]
        case resources.CLIENT_METRICS:
            if not name:
                raise _bad_request("Client metrics subscription name must not be empty")
            overrides = image.config(resources.CLIENT_METRICS, name)
            return describe.describe_client_metrics(config, overrides)
        case resources.GROUP:
            if not name:
                raise _bad_request("Group name must not be empty")
            return describe.describe_group(config, image.config(resources.GROUP, name))
        case unknown:
            raise AssertionError(f"resource type {unknown}")


def _check_is_me(name: str, call: Call, expected: str) -> None:
    if not is_integer(name):
        raise _bad_request(f"Broker id must be an integer, but it is: {name}")
    me = call.broker.node_id
    if int(name) != me:
        raise _bad_request(f"Unexpected broker id, {expected.format(me)} received {name}")


def _logger_entry(name: str, level: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=level,
        read_only=False,
        source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        sensitive=False,
        synonyms=[],
        type=_UNKNOWN_TYPE,
        documentation=None,
    )


def _response_entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> _Entry:
    return _Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            _Entry.Synonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _bad_request(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_REQUEST, message)


@failure_of(describe_configs)
def describe_configs_failure(
    request: DescribeConfigsRequest, error: KafkaError, call: Call
) -> DescribeConfigsResponse:
    """Report the error for every resource of the request."""
    return DescribeConfigsResponse(
        results=[
            _Result(
                error_code=error.error,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )

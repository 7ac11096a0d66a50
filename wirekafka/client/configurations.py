"""Configurations of topics, brokers, groups and client metrics: described, and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wirekafka.client.client import BrokerConnection, Client, CliError, check
from wirekafka.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wirekafka.protocol.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC, BROKER = 2, 4
KINDS = {"topic": TOPIC, "broker": BROKER, "client-metrics": 16, "group": 32}
_SET, _DELETE = 0, 1
SOURCES = {
    1: "topic",
    2: "broker, dynamic",
    3: "cluster, dynamic",
    4: "broker, static",
    5: "default",
    7: "client metrics",
    8: "group",
}
DEFAULT_SOURCE = 5
_OWN_SOURCES = (1, 2)
"""The sources of values that are set for one topic or one broker, at run time."""

Entry = DescribeConfigsResponse.Result.ResourceResult


def described(
    client: Client,
    kind: int,
    name: str,
    *,
    only: Sequence[str] | None = None,
    in_detail: bool = False,
) -> list[Entry]:
    """A resource's options, by name: all or `only` some; `in_detail` with synonyms and meaning."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind,
        resource_name=name,
        configuration_keys=None if only is None else list(only),
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=in_detail, include_documentation=in_detail
    )
    results = _owner(client, kind, name).send(request, DescribeConfigsResponse).results
    if len(results) != 1:
        raise CliError(f"{name}: the broker has answered {len(results)} times")
    result = results[0]
    check(result.error_code, name, result.error_message)
    return sorted(result.configs, key=lambda entry: entry.name)


def values_of(
    client: Client, kind: int, names: Sequence[str], options: Sequence[str]
) -> dict[str, dict[str, str | None]]:
    """The values of some options, by the topics or brokers for which they are set. CliError."""
    found: dict[str, dict[str, str | None]] = {name: {} for name in names}
    # A broker answers for itself only, and for any number of topics.
    for some in [[name] for name in names] if kind == BROKER else [list(names)] if names else []:
        resources = [
            DescribeConfigsRequest.Resource(
                resource_type=kind, resource_name=name, configuration_keys=list(options)
            )
            for name in some
        ]
        request = DescribeConfigsRequest(resources=resources)
        response = _owner(client, kind, some[0]).send(request, DescribeConfigsResponse)
        for result in response.results:
            check(result.error_code, result.resource_name, result.error_message)
            found[result.resource_name] = {
                each.name: each.value
                for each in result.configs
                if each.config_source in _OWN_SOURCES
            }
    return found


def alter_configs(client: Client, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
    """Set options, or delete options whose value is None."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(
            name=key, value=value, config_operation=_DELETE if value is None else _SET
        )
        for key, value in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configs=configs)]
    )
    response = _owner(client, kind, name).send(request, IncrementalAlterConfigsResponse)
    for result in response.responses:
        check(result.error_code, name, result.error_message)


def _owner(client: Client, kind: int, name: str) -> BrokerConnection:
    """The connection for a resource: a broker serves only its own configuration."""
    if kind != BROKER or not name:
        return client.any()
    if not name.isdigit():
        raise CliError(f"bad broker id {name!r}: expected a number")
    client.metadata([])
    return client.node(int(name))

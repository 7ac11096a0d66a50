"""The registry: ApiVersions and dispatch follow from the declared APIs."""

from __future__ import annotations

import pytest

from wirekafka.apis.shared import registry, routes
from wirekafka.apis.shared.call import Call, ClientConnection
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.api_versions import ApiVersionsRequest

APIS = registry.load()
SERVED = list(routes.BROKERS.served())
ROUTES = [
    (declared, version)
    for declared in SERVED
    for version in range(declared.request.versions.first, declared.request.versions.last + 1)
]


def test_produce_is_advertised_from_version_0_and_served_from_3() -> None:
    assert tuple(APIS[0].advertised) == (0, 13)
    for version in range(3):
        assert routes.BROKERS.find(version) is None
    assert routes.BROKERS.find(3) is not None


def test_an_encoder_is_compiled_for_the_first_response_and_not_before() -> None:
    response = APIS[18].response(error_code=35)
    [declared] = [each for each in SERVED if each.key == 18]
    route = routes.Route(declared, 3, declared.handler)
    before = route.encode
    heads = [bytes(route.encode(response, [], bytearray())) for _ in range(2)]
    assert heads == [response.encode(3)] * 2
    assert before != route.encode == declared.response.encoder(3)


def test_join_group_versions_0_and_1_stay() -> None:
    assert APIS[11].advertised.first == 0


def test_librdkafka_finds_the_api_versions_it_requires() -> None:
    assert {1, 2, 10, 22} <= set(APIS)
    assert APIS[2].advertised.first <= 1 <= APIS[2].advertised.last


@pytest.mark.parametrize("declared", SERVED, ids=lambda declared: declared.name)
def test_every_advertised_version_is_served(declared: registry.Api) -> None:
    first, last = declared.request.versions
    assert declared.advertised.last == last
    for version in range(first, last + 1):
        assert routes.BROKERS.find(declared.key << 16 | version) is not None
    assert routes.BROKERS.find(declared.key << 16 | last + 1) is None


@pytest.mark.parametrize("declared", APIS.values(), ids=lambda declared: declared.name)
def test_every_api_can_report_an_error(declared: registry.Api) -> None:
    """The error response to an empty request can be encoded in every version."""
    for version in range(declared.request.versions.first, declared.request.versions.last + 1):
        call = Call.__new__(Call)
        call.version = version
        call.client = ClientConnection("/127.0.0.1", "", "PLAINTEXT", is_for_controllers=False)
        request = declared.request()
        response = declared.failure(request, KafkaError(Error.UNKNOWN_SERVER_ERROR), call)
        response.encode(version)


def test_only_api_versions_has_a_response_header_that_is_never_flexible() -> None:
    for declared, version in ROUTES:
        route = routes.BROKERS.find(declared.key << 16 | version)
        assert route is not None
        expected = version in declared.request.flexible
        if declared.request is ApiVersionsRequest:
            expected = False
        assert route.response_header_is_flexible is expected


def test_clients_requests_are_forwarded_as_kafka_forwards_them() -> None:
    forwarded = {declared.name for declared in SERVED if declared.is_forwarded}
    assert forwarded == {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "CreateAcls",
        "DeleteAcls",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "ElectLeaders",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "AlterClientQuotas",
        "AlterUserScramCredentials",
        "UpdateFeatures",
        "DescribeQuorum",
        "UnregisterBroker",
        "UnregisterController",
        "AddRaftVoter",
        "RemoveRaftVoter",
    }

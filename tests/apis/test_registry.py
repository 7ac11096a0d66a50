"""The registry: what is declared is what is told and served."""

from __future__ import annotations

import pytest

from wirekafka.apis import registry
from wirekafka.apis.api_versions import ApiVersionsRequest
from wirekafka.apis.registry import Call
from wirekafka.errors import Error, KafkaError

APIS = registry.load()
ROUTES = [(declared, version) for declared in APIS.values()
          for version in range(declared.request.versions.first, declared.request.versions.last + 1)]


def test_produce_is_told_from_version_0_and_served_from_3() -> None:
    assert tuple(APIS[0].advertised) == (0, 13)
    for version in range(3):
        assert registry.find(version) is None
    assert registry.find(3) is not None


def test_join_group_versions_0_and_1_stay() -> None:
    assert APIS[11].advertised.first == 0


def test_librdkafka_sees_the_features_it_decides_from() -> None:
    assert {1, 2, 10, 22} <= set(APIS)
    assert APIS[2].advertised.first <= 1 <= APIS[2].advertised.last


@pytest.mark.parametrize("declared", APIS.values(), ids=lambda declared: declared.name)
def test_everything_told_is_served(declared: registry.Api) -> None:
    first, last = declared.request.versions
    assert declared.advertised.last == last
    for version in range(first, last + 1):
        assert registry.find(declared.key << 16 | version) is not None
    assert registry.find(declared.key << 16 | last + 1) is None


@pytest.mark.parametrize("declared", APIS.values(), ids=lambda declared: declared.name)
def test_every_api_can_tell_an_error(declared: registry.Api) -> None:
    """Of an empty request, in every version: the response must at least be encodable."""
    for version in range(declared.request.versions.first, declared.request.versions.last + 1):
        call = Call.__new__(Call)
        call.version = version
        request = declared.request()
        response = declared.failure(request, KafkaError(Error.UNKNOWN_SERVER_ERROR), call)
        response.encode(version)


def test_only_api_versions_has_a_response_header_that_is_never_flexible() -> None:
    for declared, version in ROUTES:
        route = registry.find(declared.key << 16 | version)
        assert route is not None
        expected = version in declared.request.flexible
        if declared.request is ApiVersionsRequest:
            expected = False
        assert route.response_header_is_flexible is expected

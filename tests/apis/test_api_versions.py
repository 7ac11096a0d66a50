"""ApiVersions of a broker whose controller is older: forwarded requests must suit both."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.in_process import InProcessBroker
from wirekafka.apis.shared.local_channel import LocalChannel
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.produce import ProduceRequest

_Versions = Mapping[int, tuple[int, int]]


def versions(kafka: InProcessBroker) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    response = kafka.call(request, 4)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}


@pytest.mark.parametrize(
    ("controller", "expected"),
    [((0, 5), (2, 5)), ((3, 99), (3, 7)), ((0, 1), None), (None, None)],
    ids=["older", "newer", "disjoint", "missing"],
)
def test_forwarded_apis_have_the_versions_that_the_controller_supports_too(
    kafka: InProcessBroker,
    monkeypatch: pytest.MonkeyPatch,
    controller: tuple[int, int] | None,
    expected: tuple[int, int] | None,
) -> None:
    before = versions(kafka)
    assert before[CreateTopicsRequest.key] == (2, 7)
    of_controller: _Versions = {
        DeleteTopicsRequest.key: (0, 99),
        IncrementalAlterConfigsRequest.key: (0, 0),
        **({CreateTopicsRequest.key: controller} if controller is not None else {}),
    }
    monkeypatch.setattr(LocalChannel, "controller_versions", of_controller)
    after = versions(kafka)
    assert after.get(CreateTopicsRequest.key) == expected
    assert after[DeleteTopicsRequest.key] == before[DeleteTopicsRequest.key]
    assert after[IncrementalAlterConfigsRequest.key] == (0, 0), "checked here, decided there"
    assert after[ProduceRequest.key] == before[ProduceRequest.key]

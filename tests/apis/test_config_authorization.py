"""Who may not change a configuration learns nothing from it, and nothing is read on its behalf."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from wirekafka.config import providers, small_file
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.alter_configs import AlterConfigsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest

BROKER = 4
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
CONTENTS = {
    "listener.name.plaintext.ssl.keystore.location": "${file:/etc/shadow:root}",
    "sasl.jaas.config": "${file:/dev/zero:key}",
    "log.retention.ms": "no number",
    "node.id": "7",
    "listeners": "NONSENSE",
    "num.io.threads": "1000000",
    "max.connections.per.ip.overrides": "x",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[InProcessBroker]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin",
        "config.providers": "file",
        "config.providers.file.class": FILE_PROVIDER,
    }
    broker = InProcessBroker("/data", ManualClock(), disk=SimulatedDisk(), **settings)
    yield broker
    broker.stop()


def answers(
    kafka: InProcessBroker, user: str, request: Any, version: int
) -> list[tuple[int, str | None]]:
    exchange = kafka.begin(request, version, principal=f"User:{user}")
    assert exchange.response is not None
    return [(each.error_code, each.error_message) for each in exchange.response.responses]


def incremental(name: str, option: str, value: str | None, kind: int = 0) -> Any:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resource.AlterableConfig(name=option, config_operation=kind, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=BROKER, resource_name=name, configs=[change])],
        validate_only=True,
    )


def whole(name: str, option: str, value: str | None) -> Any:
    resource = AlterConfigsRequest.Resource
    change = resource.AlterableConfig(name=option, value=value)
    return AlterConfigsRequest(
        resources=[resource(resource_type=BROKER, resource_name=name, configs=[change])],
        validate_only=True,
    )


@pytest.mark.parametrize("name", ["1", "", "2", "x"])
def test_a_user_without_rights_is_refused_before_anything_is_read(
    kafka: InProcessBroker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    for module in (providers, small_file):
        monkeypatch.setattr(module, "read_small_file", read.append)
    refused = [(Error.CLUSTER_AUTHORIZATION_FAILED, None)]
    for option, value in CONTENTS.items():
        for kind in (0, 1, 2, 3, 9):
            asked = incremental(name, option, value, kind)
            assert answers(kafka, "nobody", asked, 1) == refused, (option, kind)
        assert answers(kafka, "nobody", whole(name, option, value), 2) == refused, option
    assert read == []


def test_what_cannot_be_understood_is_refused_before_as_by_kafka(kafka: InProcessBroker) -> None:
    message = "Null value not supported for : log.retention.ms"
    for asked in (incremental("1", "log.retention.ms", None), whole("1", "log.retention.ms", None)):
        version = 1 if isinstance(asked, IncrementalAlterConfigsRequest) else 2
        assert answers(kafka, "nobody", asked, version) == [(Error.INVALID_REQUEST, message)]


def test_each_resource_of_a_request_is_authorized_for_itself(kafka: InProcessBroker) -> None:
    request = incremental("1", "log.retention.ms", "no number")
    request.resources += incremental("", "log.retention.ms", "5").resources
    refused = (Error.CLUSTER_AUTHORIZATION_FAILED, None)
    assert answers(kafka, "nobody", request, 1) == [refused, refused]
    assert [code for code, _ in answers(kafka, "admin", request, 1)] == [Error.INVALID_REQUEST, 0]

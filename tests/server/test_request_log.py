"""The request log: Kafka's lines of JSON, without secrets and records."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.server.serving import Serving
from tests.server.test_measured_pipeline import FETCH, fetch_request, produce_request
from wirekafka.metadata.image.image import BROKER_LOGGER
from wirekafka.protocol.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.server.connections.message_json import to_json
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.request_log import RequestLog

SET, DELETE = 0, 1


@pytest.fixture
def kafka(tmp_path: Path, manual_clock: ManualClock) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path / "data", manual_clock, hook=RequestLog())
    broker.create("t")
    yield broker
    broker.stop()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    """The requests that were logged, oldest first."""
    caplog.set_level(logging.DEBUG, logger="kafka.request.logger")

    def read() -> list[dict[str, Any]]:
        return [
            json.loads(record.getMessage().removeprefix("Completed request:"))
            for record in caplog.records
            if record.name == "kafka.request.logger"
        ]

    return read


def test_a_request_is_logged_with_its_response(kafka: InProcessBroker, logged: Any) -> None:
    kafka.call(produce_request(batch(b"x")), 9)
    [line] = logged()
    assert line["requestHeader"]["requestApiKeyName"] == "PRODUCE"
    assert line["requestHeader"]["requestApiVersion"] == 9
    assert line["requestHeader"]["clientId"] == "test"
    [topic] = line["request"]["topicData"]
    [partition] = topic["partitionData"]
    assert partition == {"index": 0, "recordsSizeInBytes": len(batch(b"x"))}
    [answered] = line["response"]["responses"][0]["partitionResponses"]
    assert (answered["errorCode"], answered["baseOffset"]) == (0, 0)
    assert (line["principal"], line["securityProtocol"]) == ("User:ANONYMOUS", "PLAINTEXT")
    assert line["totalTimeMs"] >= line["localTimeMs"] > 0
    assert line["clientInformation"] == {"softwareName": "unknown", "softwareVersion": "unknown"}


def test_a_request_that_waits_has_a_remote_time(kafka: InProcessBroker, logged: Any) -> None:
    async def run() -> None:
        exchange = kafka.begin(fetch_request(0, max_wait_ms=5000), FETCH)
        assert logged() == []
        kafka.call(produce_request(batch(b"x")), 9)
        while not exchange.is_done:
            await asyncio.sleep(0)

    asyncio.run(run())
    [produced, fetched] = logged()
    assert produced["remoteTimeMs"] == 0
    assert fetched["remoteTimeMs"] > 0
    [partition] = fetched["response"]["responses"][0]["partitions"]
    assert partition["recordsSizeInBytes"] == len(batch(b"x"))


def test_a_request_that_fails_is_logged_too(kafka: InProcessBroker, logged: Any) -> None:
    request = fetch_request(0)
    request.isolation_level = 7
    kafka.call(request, FETCH)
    assert [line["response"] for line in logged()] == [""]


def test_secrets_are_redacted() -> None:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="a", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"secret"
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    assert to_json(request, 0)["upsertions"] == [
        {
            "name": "a",
            "mechanism": 1,
            "iterations": 4096,
            "salt": "(redacted)",
            "saltedPassword": "(redacted)",
        }
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=name, value="v")
        for name in ("retention.ms", "ssl.keystore.password", "unknown.option")
    ]
    altered = IncrementalAlterConfigsRequest(resources=[resource(configs=configs)])
    [shown] = to_json(altered, 0)["resources"]
    values = [config["value"] for config in shown["configs"]]
    assert values == ["v", "(redacted)", "(redacted)"]


def test_it_is_turned_on_by_a_flag(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--request-log") as serving:
        with serving.client() as client:
            client.call(MetadataRequest(topics=[]), 9)
        serving.stop()
        assert '"requestApiKeyName":"METADATA"' in serving.errors


def set_level(operation: int, level: str | None) -> IncrementalAlterConfigsRequest:
    """A change of the request logger of the node of a lone broker."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(
        name="kafka.request.logger", config_operation=operation, value=level
    )
    changed = resource(resource_type=BROKER_LOGGER, resource_name="1", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[changed])


def test_it_is_turned_on_and_off_at_run_time_by_the_level_of_kafkas_logger(tmp_path: Path) -> None:
    produce = produce_request(batch(b"x"))
    with Serving(tmp_path / "data") as serving:
        with serving.client() as client:
            topic = CreateTopicsRequest.CreatableTopic(
                name="t", num_partitions=1, replication_factor=1
            )
            assert client.call(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
            client.call(produce, 9)
            for operation, level in ((SET, "DEBUG"), (DELETE, None)):
                [changed] = client.call(set_level(operation, level), 1).responses
                assert (changed.error_code, changed.error_message) == (0, None)
                # Requests that are served from the cache are logged as well.
                for _ in range(3):
                    assert (
                        client.call(produce, 9).responses[0].partition_responses[0].error_code == 0
                    )
        serving.stop()
        names = re.findall(r'"requestApiKeyName":"(\w+)"', serving.errors)
    assert names == ["PRODUCE"] * 3


def test_other_hooks_may_come_and_go_while_requests_are_logged() -> None:
    served = []

    class Fault:
        def handle(self, route: Any, request: Any, call: Any) -> None:
            served.append(request)

    pipeline, fault = Pipeline(), Fault()
    pipeline.wrap(RequestLog)
    pipeline.hook = fault
    assert pipeline.hook is fault
    pipeline._hook.handle(SimpleNamespace(api=SimpleNamespace(name="Fetch")), "a request", None)
    pipeline.hook = None
    assert isinstance(pipeline._hook, RequestLog)
    pipeline.wrap(None)
    assert pipeline._hook is None
    assert served == ["a request"]

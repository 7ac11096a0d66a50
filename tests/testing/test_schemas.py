"""`broker.schemas`: schemas, decoded records and recorded traffic of a broker under test."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.fake_registry import FakeRegistry, Fault, fake_registry
from tests.registry.plain_schemas import use_plain_schemas
from tests.testing.clients import confluent_producer, deliver
from wirekafka import Broker
from wirekafka.client.schema_registry import RegistryRefused, SchemaRegistry
from wirekafka.registry.faults import RegistryFaults
from wirekafka.schemas.schema import Format, ValueMismatch
from wirekafka.testing.control import BrokerControl
from wirekafka.testing.registry.schemas import Schemas


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    use_plain_schemas(monkeypatch)
    with fake_registry() as registry:
        yield registry


@pytest.fixture
def schemas(fake: FakeRegistry) -> Schemas:
    return Schemas(lambda: SchemaRegistry(fake.url), RegistryFaults("key"))


def test_schemas_are_texts_files_or_values_of_json(fake, schemas, tmp_path):
    file = tmp_path / "file.avsc"
    file.write_text("File")
    assert schemas.register("a-value", "Text") == 1
    assert schemas.register("a-value", file) == 2
    assert schemas.register("b-value", {"type": "object"}, "json", [("n", "a-value", 1)]) == 3
    latest = schemas.latest("b-value")
    assert (latest.text, latest.format, latest.id) == ('{"type": "object"}', Format.JSON, 3)
    assert latest.references[0].subject == "a-value"
    assert schemas.latest("a-value").text == "File"
    with pytest.raises(RegistryRefused):
        schemas.latest("c-value")
    with pytest.raises(ValueError, match="type='xml': say AVRO, JSON, PROTOBUF"):
        schemas.register("a-value", "Text", "xml")


def test_stored_records_are_decoded(broker: Broker, schemas: Schemas) -> None:
    schemas.register("orders-value", "Order")
    broker.produce("orders", [("key", schemas.encoded("orders-value", {"id": 1})), b"plain"])
    framed, plain = map(schemas.decoded, broker.records("orders"))
    assert (framed.key, framed.value, framed.key_schema) == (b"key", {"id": 1}, None)
    assert framed.value_schema.text == "Order"
    assert (plain.key, plain.value, plain.value_schema) == (None, b"plain", None)
    with pytest.raises(ValueMismatch, match="5 is no object"):
        schemas.encoded("orders-value", 5)
    broker.produce("broken", [b"\0\0\0\0\7{}"])
    with pytest.raises(ValueMismatch, match="the value: the registry has no schema with id 7"):
        schemas.decoded(broker.records("broken")[0])


def test_recorded_requests_show_decoded_values(broker: Broker, schemas: Schemas) -> None:
    schemas.register("orders-value", "Order")
    value = schemas.encoded("orders-value", {"id": 1})
    producer = confluent_producer(broker)
    assert deliver(producer, "orders", value) is None
    broker.requests.show_values(schemas.shown)
    (exchange,) = broker.requests.of("Produce")
    assert str(exchange).endswith('1 record at offset 0; {"id": 1}')
    for _ in range(5):
        producer.produce("orders", schemas.encoded("orders-value", {"long": "x" * 200}))
    producer.flush()
    shown = str(broker.requests)
    assert '{"long": "' + "x" * 100 in shown and "x" * 150 not in shown
    assert deliver(producer, "orders", b"plain") is None
    assert str(broker.requests.of("Produce")[-1]).endswith("1 record at offset 6")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"status": 200}, "status=200: an error is 400 to 599"),
        ({"request": "subjects"}, "is no pattern of requests"),
    ],
)
def test_faults_that_can_never_act_are_refused(schemas, wrong, message):
    with pytest.raises(ValueError, match=message):
        schemas.fail(**wrong)


def test_the_control_port_registers_decodes_and_disturbs(broker: Broker, schemas, fake):
    control = BrokerControl(broker, schemas)
    assert control.answer("GET", "/", {})["schema_registry_url"] == fake.url
    body = {"subject": "orders-value", "schema": "Order"}
    assert control.answer("POST", "/schemas", body) == {"id": 1}
    referring = {"schema": {"a": 1}, "type": "JSON", "references": [["n", "orders-value", 1]]}
    assert control.answer("POST", "/schemas", {"subject": "b", **referring}) == {"id": 2}
    assert fake.seen[-1].body["references"][0]["subject"] == "orders-value"
    value = schemas.encoded("orders-value", {"id": 1})
    broker.produce("orders", [("key", value), b"plain"])
    assert control.answer("GET", "/decoded", {"topic": "orders"}) == [
        {"partition": 0, "offset": 0, "key": "key", "value": {"id": 1}},
        {"partition": 0, "offset": 1, "key": None, "value": "plain"},
    ]
    rule = {"kind": "fail_registry", "request": "GET /subjects", "status": 503, "times": 1}
    assert control.answer("POST", "/rules", rule) == {"id": 1}
    assert control.answer("GET", "/rules/1", {}) == {
        "id": 1,
        "rule": "fail(GET /subjects, 503, 503)",
        "hits": 0,
    }
    delay = {"kind": "delay_registry", "seconds": 2}
    assert control.answer("POST", "/rules", delay) == {"id": 2}
    assert control.answer("DELETE", "/rules/2", {})["rule"] == "delay(any /**, 2 s)"
    rule = {"kind": "fail", "api": "Produce", "error": "REQUEST_TIMED_OUT"}
    assert control.answer("POST", "/rules", rule) == {"id": 3}
    assert control.answer("GET", "/rules/3", {})["waiting"] == 0
    control.remove_rules()
    fake.faults.append(Fault(409, b'{"error_code": 409, "message": "incompatible"}'))
    with pytest.raises(ValueError, match="incompatible"):
        control.answer("POST", "/schemas", body)


def test_a_process_for_other_languages_has_a_registry() -> None:
    command = [sys.executable, "-m", "wirekafka.testing", "--schema-registry"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        control = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(control, timeout=10) as response:
            url = json.load(response)["schema_registry_url"]
        assert SchemaRegistry(url).subjects() == []
        request = urllib.request.Request(
            f"{control}/rules", b'{"kind": "fail_registry", "request": "GET /subjects"}'
        )
        urllib.request.urlopen(request, timeout=10).close()
        with pytest.raises(RegistryRefused, match="as the test wants"):
            SchemaRegistry(url).subjects()
        process.terminate()
        assert process.wait(10) == 0

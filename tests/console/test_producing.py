"""Records are produced by a form, in each of its forms, with the rights of the visitor."""

from __future__ import annotations

import base64

import confluent_kafka
import pytest

from tests.console.forms import fields_of, fill, form_of
from tests.console.site import Shown, Site, console
from wirekafka import Broker
from wirekafka.client.partitioner import partition_of
from wirekafka.client.schema_registry import SchemaRegistry
from wirekafka.config.client_config import ClientConfig
from wirekafka.schemas.schema import Format
from wirekafka.testing import Allow

USERS = {"ann": "ann's secret"}
HOSTILE = '</textarea><img src=x onerror="alert(1)">\u202e'


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname
    if name not in broker.topics():
        broker.create_topic(name, partitions=5)
    return str(name)


def produce(site: Site, topic: str, **fields: object) -> Shown:
    path = f"/topics/{topic}/produce"
    return fill(site, site.get(path), path, **fields)


def only(broker: Broker, topic: str) -> confluent_kafka.Message:
    """The only record of a topic, as a client reads it."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "x"}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    partitions = range(broker.topics()[topic])
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
    [found] = consumer.consume(1, 10)
    consumer.close()
    return found


def test_a_record_goes_to_the_partition_of_its_key_with_its_headers(
    broker: Broker, changing: Site, topic: str
) -> None:
    page = produce(
        changing,
        topic,
        key_form="text",
        key="käse",
        value="a\r\nb",
        headers="trace=1=2\r\n\r\nempty=\r\nnone",
    )
    found = only(broker, topic)
    assert (found.key(), found.value()) == ("käse".encode(), b"a\nb")
    assert found.headers() == [("trace", b"1=2"), ("empty", b""), ("none", None)]
    assert found.partition() == partition_of("käse".encode(), 5)
    place = f"at offset 0 of partition {found.partition()}"
    assert place in page.words("[role=status]")
    link = page.soup.select_one("[role=status] a")
    assert link is not None
    assert "käse" in changing.get(str(link["href"])).words("section[aria-labelledby=key]")


@pytest.mark.parametrize(
    ("form", "text", "data"),
    [
        ("null", "", None),
        ("text", "", b""),
        (
            "json",
            ' {"n": 1e400, "m": 10000000000000000000001}\n',
            b'{"n": 1e400, "m": 10000000000000000000001}',
        ),
        ("hex", "00 ff\r\n0A", b"\x00\xff\n"),
        ("base64", base64.b64encode(b"\x00\xff" * 50).decode(), b"\x00\xff" * 50),
    ],
)
def test_a_value_is_entered_in_any_form(
    broker: Broker, changing: Site, form: str, text: str, data: bytes | None
) -> None:
    topic = f"entered-{form}"
    broker.create_topic(topic, partitions=2)
    produce(changing, topic, value_form=form, value=text, partition=1)
    found = only(broker, topic)
    assert (found.partition(), found.key(), found.value()) == (1, None, data)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"value_form": "json", "value": '{"a": NaN}'}, "The value: not JSON: NaN"),
        ({"value_form": "json", "value": "[" * 50_000}, "The value: not JSON"),
        ({"value_form": "null", "value": "x"}, "leave it empty"),
        ({"key_form": "hex", "key": "0"}, "The key: not pairs of hexadecimal digits"),
        ({"key_form": "base64", "key": "a=b="}, "The key: not base64"),
        ({"key_form": "morse", "key": ""}, "not 'morse'"),
        ({"key_form": "schema", "key": "1"}, "this console has no schema registry"),
        ({"partition": "5"}, "partitions 0 to 4, and not '5'"),
        ({"partition": "-1"}, "and not '-1'"),
    ],
)
def test_a_refused_record_is_entered_again(
    broker: Broker, changing: Site, topic: str, changed: dict[str, str], reason: str
) -> None:
    fields = {"key_form": "text", "key": "k", "value": HOSTILE, "headers": "a=<b>", **changed}
    page = produce(changing, topic, **fields)
    assert page.status == 400 and reason in page.words("[role=alert]")
    again = fields_of(form_of(page, f"/topics/{topic}/produce"))
    for name in {"key", "value", "headers", *changed} - {"key_form"}:
        assert again[name] == fields[name]
    assert not page.soup.select("main img")
    assert broker.records(topic) == []


def test_a_record_that_the_broker_refuses_is_entered_again(broker: Broker, changing: Site) -> None:
    broker.create_topic("compacted", cleanup_policy="compact")
    page = produce(changing, "compacted", value="without a key")
    assert page.status == 400
    assert "INVALID_RECORD" in page.words("[role=alert]")
    assert page.words("textarea[name=value]") == "without a key"
    broker.create_topic("small", max_message_bytes=100)
    page = produce(changing, "small", value="x" * 500)
    assert page.status == 400 and "max.message.bytes" in page.words("[role=alert]")
    assert page.words("textarea[name=value]") == "x" * 500


def test_no_topic_is_created_by_its_form(broker: Broker, changing: Site) -> None:
    assert changing.get("/topics/missing/produce").status == 404
    assert changing.post("/topics/missing/produce", value="x", value_form="text").status == 404
    assert "missing" not in broker.topics()


def test_a_read_only_console_produces_nothing(broker: Broker, site: Site, topic: str) -> None:
    page = site.get(f"/topics/{topic}/produce")
    assert not page.soup.select("form[method=post]") and "--allow-changes" in page.words()
    tabs = [each.get_text() for each in site.get(f"/topics/{topic}").soup.select("nav.tabs a")]
    assert "Producers" in tabs and "Produce" not in tabs
    assert site.post(f"/topics/{topic}/produce", value="x", value_form="text").status == 403
    assert broker.records(topic) == []


def test_a_record_needs_the_token_of_the_session(
    broker: Broker, changing: Site, topic: str
) -> None:
    fields = {"value": "x", "value_form": "text", "token": changing.another().token()}
    assert changing.submit(f"/topics/{topic}/produce", fields).status == 403
    assert broker.records(topic) == []


def test_a_visitor_without_write_produces_nothing() -> None:
    acls = [Allow("ann", ("read", "describe"), topic="orders"), Allow("ann", "write", topic="own")]
    config = ClientConfig(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    )
    with (
        Broker(users=USERS, acls=acls, topics=["orders", "own", "hidden"]) as broker,
        console(broker.bootstrap_servers, config=config, allow_changes=True) as site,
    ):
        site.log_in("ann", USERS["ann"])
        page = produce(site, "orders", value="mine")
        assert page.status == 400
        assert "it needs WRITE on it" in page.words("[role=alert]")
        assert page.words("textarea[name=value]") == "mine"
        assert site.get("/topics/hidden/produce").status == 502
        # Whoever may write and not read learns where the record is, and not what is there.
        page = produce(site, "own", value="x")
        assert "at offset 0" in page.words("[role=status]")
        assert broker.records("orders") == [] and len(broker.records("own")) == 1


def test_values_are_encoded_by_the_newest_schema_of_a_subject() -> None:
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}'
    with (
        Broker(schema_registry=True, topics=["orders"]) as broker,
        SchemaRegistry(broker.schema_registry_url) as client,
        console(
            broker.bootstrap_servers, allow_changes=True, schema_registry=broker.schema_registry_url
        ) as site,
    ):
        id = client.register("orders-value", schema, Format.AVRO)
        fields = {"value_form": "schema", "key_form": "text", "key": "k"}
        page = produce(site, "orders", **fields, value='{"n": "many"}')
        assert page.status == 400 and f"does not fit schema {id}" in page.words("[role=alert]")
        assert page.words("textarea[name=value]") == '{"n": "many"}'
        page = produce(site, "orders", **fields, value="1", value_subject="nothing")
        assert page.status == 400 and "40401" in page.words("[role=alert]")
        assert broker.records("orders") == []
        page = produce(site, "orders", **fields, value='{"n": 7}')
        assert page.status == 200, page.words()
        [found] = broker.records("orders")
        assert found.value == b"\x00" + id.to_bytes(4, "big") + b"\x0e"

"""A broker under test with TLS, users and ACLs, and clients that are allowed and denied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from wirekafka.testing import Allow, Broker, Deny

USERS = {"alice": 'sec"ret\\', "bob": "other"}
ACLS = [
    Allow("alice", ["read", "write"], topic="orders"),
    Allow("alice", "read", group="billing*"),
    Deny("bob", "all", topic="*"),
]


@pytest.fixture(scope="module", params=[True, False], ids=["tls", "plaintext"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(topics=["orders"], users=USERS, acls=ACLS, tls=request.param) as broker:
        yield broker


def confluent_produce(settings: dict[str, Any], topic: str) -> object:
    """The error of a produced record, None for success."""
    errors: list[object] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    return errors[0]


def kafka_python_produce(settings: dict[str, Any], topic: str) -> object:
    """The error of a produced record, None for success."""
    # Without idempotence, whose InitProducerId would be refused for another reason.
    producer = kafka.KafkaProducer(**settings, max_block_ms=20_000, enable_idempotence=False)
    try:
        producer.send(topic, b"v").get(20)
    except Exception as error:
        return error
    finally:
        producer.close()
    return None


@pytest.mark.parametrize(
    "client, produce", [("confluent", confluent_produce), ("kafka-python", kafka_python_produce)]
)
def test_a_client_may_only_do_what_its_acls_allow(
    broker: Broker, client: str, produce: Callable[[dict[str, Any], str], object]
) -> None:
    assert produce(broker.client_config(client, user="alice"), "orders") is None
    count = len(broker.records("orders"))
    refusal = produce(broker.client_config(client, user="bob"), "orders")
    assert "authoriz" in f"{refusal!r}".lower()
    assert len(broker.records("orders")) == count


def test_a_consumer_reads_in_the_groups_that_it_may_use(broker: Broker) -> None:
    broker.produce("orders", ["v"])
    settings = {**broker.client_config(user="alice"), "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, "group.id": "billing-1"})
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    assert message is not None and message.error() is None, message
    consumer.close()
    stranger = confluent_kafka.Consumer({**settings, "group.id": "shipping"})
    stranger.subscribe(["orders"])
    message = stranger.poll(20)
    assert message is not None and message.error() is not None
    assert message.error().code() == confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
    stranger.close()


async def _aiokafka_topics(settings: dict[str, Any]) -> set[str]:
    consumer = aiokafka.AIOKafkaConsumer(**settings)
    await consumer.start()
    try:
        return set(await consumer.topics())
    finally:
        await consumer.stop()


def test_aiokafka_sees_only_topics_that_it_may_describe(broker: Broker) -> None:
    seen = {
        user: asyncio.run(_aiokafka_topics(broker.client_config("aiokafka", user=user)))
        for user in USERS
    }
    assert seen == {"alice": {"orders"}, "bob": set()}


def test_a_wrong_password_is_refused(broker: Broker) -> None:
    settings = {**broker.client_config(user="alice"), "sasl.password": "wrong"}
    errors: list[confluent_kafka.KafkaError] = []
    admin = AdminClient({**settings, "error_cb": errors.append})
    assert admin.poll(20) > 0
    assert any(each.code() == confluent_kafka.KafkaError._AUTHENTICATION for each in errors)


def test_reset_brings_back_users_and_acls() -> None:
    with Broker(topics=["orders"], users=USERS, acls=ACLS) as broker:
        broker.reset()
        assert confluent_produce(broker.client_config(user="alice"), "orders") is None
        broker.crash()
        broker.restart()
        assert confluent_produce(broker.client_config(user="alice"), "orders") is None


def test_a_broker_with_tls_alone_has_encrypted_connections_without_users() -> None:
    with Broker(tls=True) as broker:
        settings = broker.client_config()
        assert settings["security.protocol"] == "SSL"
        assert confluent_produce(settings, "t") is None


def test_java_gets_a_truststore_and_a_quoted_password() -> None:
    with Broker(users=USERS, tls=True) as broker:
        settings = broker.client_config("java", user="alice")
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["ssl.truststore.type"] == "PEM"
    assert settings["ssl.truststore.certificates"].startswith("-----BEGIN CERTIFICATE-----")
    assert settings["sasl.jaas.config"].endswith('password="sec\\"ret\\\\";')


def test_mistakes_in_the_arguments_are_explained() -> None:
    with pytest.raises(ValueError, match="did you mean 'read'"):
        Broker(acls=[Allow("alice", "raed", topic="orders")])
    with pytest.raises(ValueError, match="a topic, a group"):
        Broker(acls=[Allow("alice", "read")])
    with pytest.raises(TypeError, match="neither an Allow nor a Deny"):
        Broker(acls=["alice"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="names with passwords"):
        Broker(users={"alice": None})  # type: ignore[dict-item]
    with Broker(users=USERS) as broker:
        with pytest.raises(ValueError, match="give user="):
            broker.client_config()
        with pytest.raises(ValueError, match="did you mean 'alice'"):
            broker.client_config(user="alicia")
        with pytest.raises(ValueError, match="unknown client"):
            broker.client_config("telnet", user="alice")


def test_passwords_and_keys_are_not_in_the_text_of_objects() -> None:
    broker = Broker(users=USERS, tls=True)
    shown = f"{broker!r} {broker._security!r}"
    assert "other" not in shown and "PRIVATE KEY" not in shown

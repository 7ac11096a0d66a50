"""Changes by the console's forms, on Apache Kafka as on wirekafka: both with SASL and ACLs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.console.forms import fields_of, fill, form_of
from tests.console.site import Site, console
from tests.eventually import eventually
from tests.ports import free_ports
from tests.server.serving import Serving
from wirekafka.client.client import Client
from wirekafka.client.topic_changes import TopicCreation, create_topics
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.config.client_config import ClientConfig

_MODULES = "org.apache.kafka.common.security"
_LISTENERS = {"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT"}
"""The protocol of each listener; who connects without a login is a super user."""
_PASSWORDS = {"admin": "admin-secret", "ann": "ann-secret"}
_SINGLE = "offsets.topic.replication.factor=1\n"
_TOPICS = ("orders", "compacted")


class Side(NamedTuple):
    """A broker, and visitors of a console of it: a super user, and a user without rights."""

    open_address: str
    admin: Site
    ann: Site


def settings(ports: Mapping[str, int], controller_port: int) -> str:
    """The lines of server.properties that differ from a plain broker's."""
    bound = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in _LISTENERS.items())
    users = " ".join(f'user_{user}="{password}"' for user, password in _PASSWORDS.items())
    lines = [
        f"listeners={bound},CONTROLLER://127.0.0.1:{controller_port}",
        f"advertised.listeners={bound}",
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}",
        "inter.broker.listener.name=PLAINTEXT",
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:ANONYMOUS;User:admin",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config="
        f"{_MODULES}.plain.PlainLoginModule required {users};",
        *(
            f"listener.name.login.scram-sha-{bits}.sasl.jaas.config="
            f"{_MODULES}.scram.ScramLoginModule required;"
            for bits in (256, 512)
        ),
    ]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture(scope="module", params=["Apache Kafka", "wirekafka"])
def side(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Side]:
    directory: Path = tmp_path_factory.mktemp("side")
    *numbers, controller_port = free_ports(len(_LISTENERS) + 1)
    ports = dict(zip(_LISTENERS, numbers, strict=True))
    lines = settings(ports, controller_port)
    if request.param == "wirekafka":
        properties = directory / "server.properties"
        properties.write_text(_SINGLE + lines)
        with Serving(directory / "data", "--config", str(properties), listen="") as serving:
            assert serving.ready, serving.stop()
            yield from visited(ports)
        return
    voters = f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
    _, command = prepare(directory, SMALL_JVM, lines + voters + SMALL_CLEANER)
    with running(command, directory, *ports.values()):
        yield from visited(ports)


def visited(ports: Mapping[str, int]) -> Iterator[Side]:
    open_address = f"127.0.0.1:{ports['PLAINTEXT']}"
    with Client(open_address) as client:
        for name in _TOPICS:
            configs = {"cleanup.policy": "compact"} if name == "compacted" else {}
            [made] = create_topics(client, [name], TopicCreation(3, 1, configs))
            assert not made.error_code, made
    config = ClientConfig({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
    with console(f"127.0.0.1:{ports['LOGIN']}", config=config, allow_changes=True) as site:
        visitors = []
        for user, password in _PASSWORDS.items():
            visitor = site.another()
            assert visitor.log_in(user, password).words("h1") == "Overview"
            visitors.append(visitor)
        yield Side(open_address, *visitors)


def rows(site: Site, path: str, section: str) -> list[list[str]]:
    return site.get(path).rows(f"section[aria-labelledby={section}]")


ACL = {
    "principal": "User:ann",
    "permission": "ALLOW",
    "operation": "WRITE",
    "type": "TOPIC",
    "name": "ord",
    "pattern": "PREFIXED",
    "host": "*",
}


def test_a_record_is_produced_once_an_acl_allows_it(side: Side) -> None:
    path = "/topics/orders/produce"
    fields = {"key_form": "text", "key": "k", "value_form": "json", "value": '{"n": 1}'}
    fields |= {"headers": "trace=7\nnone", "partition": "2"}
    assert side.ann.post(path, **fields).status == 502, "the topic is not described to ann"
    assert fill(side.admin, side.admin.get("/acls/add", **ACL), "/acls/add").status == 200
    row = ["User:ann", "Allow", "WRITE", "Topic", "prefixed", "ord", "*", "remove"]
    assert eventually(lambda: row in rows(side.admin, "/acls", "rules"))
    shown = eventually(lambda: _page(side.ann, path))
    page = fill(side.ann, shown, path, **fields)
    assert "at offset 0 of partition 2" in page.words("[role=status]")
    assert page.url.endswith("?partition=2&offset=0")
    tombstone = fill(side.ann, page, path, key_form="text", key="k", value_form="null")
    assert tombstone.status == 200, tombstone.words()
    found = read(side.open_address, 2)
    assert [(each.key(), each.value()) for each in found] == [(b"k", b'{"n": 1}')]
    assert found[0].headers() == [("trace", b"7"), ("none", None)]
    link = next(
        str(each["href"])
        for each in side.admin.get("/acls").soup.select("td a")
        if "name=ord" in str(each["href"])
    )
    assert fill(side.admin, side.admin.get(link), "/acls/remove").status == 200
    assert eventually(lambda: row not in rows(side.admin, "/acls", "rules"))
    assert side.admin.get(link).status == 404


def test_a_record_that_the_broker_refuses_is_entered_again(side: Side) -> None:
    path = "/topics/compacted/produce"
    page = fill(side.admin, side.admin.get(path), path, value="without a key", partition="0")
    assert page.status == 400 and "INVALID_RECORD" in page.words("[role=alert]")
    assert fields_of(form_of(page, path))["value"] == "without a key"


def test_a_user_is_added_logs_in_by_each_mechanism_and_is_removed(side: Side) -> None:
    def listed() -> list[str]:
        return [row[1] for row in rows(side.admin, "/users", "users") if row[0] == "carl"]

    def logs_in(password: str) -> bool:
        return side.admin.another().log_in("carl", password).status == 200

    password = {"password": "first", "password_again": "first"}
    page = fill(side.admin, side.admin.get("/users"), "/users", name="carl", **password)
    assert page.status == 200, page.words()
    assert eventually(lambda: listed() == ["SCRAM-SHA-512"])
    assert eventually(lambda: logs_in("first"))
    again = fill(side.admin, side.admin.get("/users"), "/users", name="carl", **password)
    assert again.status == 400 and "already" in again.words("[role=alert]")
    weaker = {"password": "second", "password_again": "second", "mechanism": "SCRAM-SHA-256"}
    page = fill(side.admin, side.admin.get("/users"), "/users", name="carl", **weaker)
    assert eventually(lambda: listed() == ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    assert eventually(lambda: logs_in("second")) and logs_in("first")
    changed = {"password": "third", "password_again": "third", "mechanism": "both"}
    user = side.admin.get("/user", name="carl")
    assert fill(side.admin, user, "/user/password", **changed).status == 200
    assert eventually(lambda: logs_in("third") and not logs_in("first"))
    removal = {"mechanism": "both", "confirmed": "carl"}
    assert fill(side.admin, user, "/user/remove", **removal).status == 200
    assert eventually(lambda: not listed() and side.admin.get("/user", name="carl").status == 404)


def test_quotas_are_set_and_removed(side: Side) -> None:
    def line() -> list[str]:
        [row] = rows(side.admin, "/quotas", "quotas")
        return row[:4]

    fields = {"for": "a client id of a user", "user": "ann", "value": "2048"}
    page = fill(side.admin, side.admin.get("/quotas"), "/quotas", **fields)
    assert page.status == 200, page.words()
    wanted = ["user ann, client-id (default)", "producer_byte_rate", "2048", "bytes/s"]
    assert eventually(lambda: line() == wanted)
    removal = str(side.admin.get("/quotas").soup.select("td a")[1]["href"])
    assert fill(side.admin, side.admin.get(removal), "/quotas/remove").status == 200
    assert eventually(lambda: line() == ["There are none."])


def test_refused_changes_are_entered_again_with_the_reason_of_the_broker(side: Side) -> None:
    quota = {"for": "a user", "user": "ann", "quota": "connection_creation_rate", "value": "7"}
    page = fill(side.admin, side.admin.get("/quotas"), "/quotas", **quota)
    assert page.status == 400 and "INVALID_REQUEST" in page.words("[role=alert]")
    assert fields_of(form_of(page, "/quotas"))["value"] == "7"
    topic = {"name": "a b", "partitions": "2", "configs": "x=1"}
    page = fill(side.admin, side.admin.get("/topics"), "/topics", **topic)
    assert page.status == 400 and "INVALID_TOPIC" in page.words("[role=alert]")
    assert fields_of(form_of(page, "/topics"))["configs"] == "x=1"


def test_a_visitor_changes_nothing_without_rights_on_the_brokers(side: Side) -> None:
    password = {"password": "p", "password_again": "p"}
    quota = {"for": "a user", "user": "ann", "quota": "producer_byte_rate", "value": "7"}
    for path, fields in (("/acls/add", ACL), ("/acls/remove", ACL), ("/quotas", quota)):
        page = side.ann.post(path, **fields)
        assert page.status in (400, 502), (path, page.words())
        assert "CLUSTER_AUTHORIZATION_FAILED" in page.words("[role=alert]"), path
    for path in ("/users", "/user?name=carl"):
        assert "CLUSTER_AUTHORIZATION_FAILED" in side.ann.get(path).words(), path
    page = side.ann.post("/users", name="eve", mechanism="SCRAM-SHA-512", **password)
    assert page.status == 400
    assert "CLUSTER_AUTHORIZATION_FAILED" in page.words("[role=alert]")


def read(bootstrap: str, partition: int) -> list:
    """The records of a partition of `orders`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition("orders", partition, 0)])
    found = consumer.consume(1, 20)
    consumer.close()
    return list(found)


def _page(site: Site, path: str):
    found = site.get(path)
    return found if found.status == 200 else None

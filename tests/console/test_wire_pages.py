"""The pages of the wire: one client's requests, for those who may see them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest
from bs4 import BeautifulSoup

from tests.console.site import Site
from tests.eventually import eventually
from wirekafka import Broker
from wirekafka.client.client import Client
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.console import protocol_steps
from wirekafka.console.pages import wire_pages
from wirekafka.console.protocol_steps import is_step
from wirekafka.console.sampler import Sampler
from wirekafka.console.service import console_server
from wirekafka.console.settings import ConsoleSettings
from wirekafka.errors import Error
from wirekafka.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from wirekafka.server.monitoring.wire_tap import WireWatches
from wirekafka.testing import Allow

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@contextmanager
def inside(broker: Broker, config: ClientConfig | None = None) -> Iterator[Site]:
    engine = broker._engine
    wire = WireWatches(engine._node, engine._loop)
    settings = ConsoleSettings(broker.bootstrap_servers, Address("127.0.0.1", 0), config)
    server = console_server(settings, lambda pool: Sampler(pool, tap=wire))
    server.start()
    try:
        yield Site(server.address)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def insider(broker) -> Iterator[Site]:
    with inside(broker) as site:
        yield site


def producer(broker: Broker, client_id: str) -> confluent_kafka.Producer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": client_id}
    made = confluent_kafka.Producer(settings)
    made.list_topics(timeout=10)
    return made


def test_clients_are_listed(broker, insider):
    made = producer(broker, HOSTILE)

    def page() -> Any:
        # librdkafka may replace its connection after it has the list of brokers.
        made.list_topics(timeout=10)
        found = insider.get("/wire", q="onerror")
        return found.rows("#clients")[0][0] != "No clients." and found

    shown = eventually(page)
    assert not shown.soup.select("main img")
    assert "\u202e" not in shown.words("#clients")
    rows = shown.rows("#clients")
    assert rows[0][0] == "<img src=x onerror=alert(1)>\\u202e"
    assert rows[0][1:3] == ["User:ANONYMOUS", "127.0.0.1"]
    link = shown.soup.select_one("#clients tbody a")["href"]
    assert insider.get(link).soup.select_one("[data-live]") is not None
    assert len(made) == 0


def test_requests_of_a_client_are_shown_while_they_are_exchanged(broker, insider):
    hook = broker._engine._node.pipeline.hook
    made = producer(broker, "watched")
    page = insider.get("/wire/watch", client="watched")
    events = insider.events(page.soup.select_one("[data-live]")["data-live"])
    assert next(events) == ("status", "Watching. Nothing has been exchanged yet.")
    made.produce("wired", HOSTILE)
    assert made.flush(10) == 0
    rows = []
    while not any("Produce" in row for row in rows):
        kind, html = next(events)
        if kind == "row":
            rows.append(html)
    produced = next(row for row in rows if "Produce" in row)
    assert "&#34;topicData&#34;" in produced and "recordsSizeInBytes" in produced
    assert "onerror" not in produced
    events.close()
    broker.wait_for(lambda: broker._engine._node.pipeline.hook is hook, timeout_s=20)


def test_a_row_says_what_was_exchanged(broker, insider):
    made = producer(broker, "speaker")
    page = insider.get("/wire/watch", client="speaker", api="Produce")
    assert page.soup.select_one("select[name=api] option[selected]").text == "Produce"
    events = insider.events(page.soup.select_one("[data-live]")["data-live"])
    next(events)
    for _ in range(3):
        made.produce("described", "x")
    assert made.flush(10) == 0
    html = next(html for kind, html in events if kind == "row")
    cells = [each.get_text(" ", strip=True) for each in BeautifulSoup(html, "html.parser")("td")]
    assert cells[1:3] == ["speaker", "described"]
    assert cells[3] == "0" and int(cells[4]) in (1, 2, 3) and cells[5].endswith(" B")
    assert cells[6] == "" and cells[7].endswith(" ms")
    events.close()


def test_errors_are_watched_of_all_clients_but_not_normal_steps(broker, insider):
    page = insider.get("/wire/watch", all="yes", error="any", q="seeker")
    events = insider.events(page.soup.select_one("[data-live]")["data-live"])
    assert next(events)[0] == "status"
    with Client(broker.bootstrap_servers, client_id="seeker") as client:
        joined = client.any().send(JoinGroupRequest(group_id="steps"), JoinGroupResponse)
        assert is_step("JoinGroup", Error(joined.error_code).name)
        client.metadata(["missing"])
    html = next(html for kind, html in events if kind == "row")
    assert 'class="bad"' in html and "UNKNOWN_TOPIC_OR_PARTITION" in html
    status = next(html for kind, html in events if kind == "status")
    assert re.search(r"\b1 of which pass the filter", status)
    events.close()
    assert insider.get("/wire/watch", all="yes").words("h1") == "Wire of all clients"


def test_steps_of_the_protocol_are_no_errors():
    assert is_step("JoinGroup", "MEMBER_ID_REQUIRED")
    assert is_step("Heartbeat", "REBALANCE_IN_PROGRESS")
    assert is_step("OffsetFetch", "NOT_COORDINATOR")
    assert not is_step("OffsetCommit", "REBALANCE_IN_PROGRESS"), "its offsets are not committed"
    assert not is_step("Heartbeat", "UNKNOWN_MEMBER_ID")
    assert not is_step("Produce", "UNSUPPORTED_VERSION")
    known = {error.name for error in Error}
    apis = set(WireWatches.apis())
    for error, named in protocol_steps._STEPS.items():
        assert error in known and named <= apis


def test_without_scripts_a_few_seconds_are_shown(broker, insider, monkeypatch):
    monkeypatch.setattr(wire_pages, "_STEP_S", 0.5)
    shown = insider.get("/wire/watch", client="wirekafka-console", plain="yes")
    assert shown.status == 200 and "requests within a few seconds" in shown.text
    assert shown.soup.select_one("#exchanges") is not None


def test_a_foreign_broker_has_no_wire(site):
    shown = site.get("/wire")
    assert shown.status == 200
    assert "cannot be watched" in shown.words()
    assert site.get("/wire/watch", client="x").status == 404
    assert dict(site.events("/wire/events", client="x")).keys() == {"failed", "done"}


def test_only_those_who_may_configure_the_cluster_watch_others():
    rules = [
        Allow("alice", ["ALTER_CONFIGS", "DESCRIBE"], cluster=True),
        Allow("bob", ["ALTER", "DESCRIBE"], cluster=True),
    ]
    users = {"alice": "alices-password", "bob": "bobs-password"}
    with Broker(users=users, acls=rules) as broker:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        with inside(broker, ClientConfig(settings, "test")) as site:
            for user, status in (("bob", 403), ("alice", 200)):
                token = site.get("/login").soup.select_one("input[name=token]")["value"]
                site.submit("/login", {"name": user, "password": users[user], "token": token})
                shown = site.get("/wire")
                assert shown.status == status, shown.text
                watched = site.get("/wire/watch", client="x")
                assert watched.status == status
                if status == 403:
                    assert "ALTER_CONFIGS" in shown.text and broker.bootstrap_servers
                    events = dict(site.events("/wire/events", client="x"))
                    assert "ALTER_CONFIGS" in events["failed"]
                site.post("/logout")

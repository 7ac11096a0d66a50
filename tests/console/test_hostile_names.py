"""Names that differ by unseen characters, and lies of brokers, on pages that change something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer

import wirekafka
from tests.console.forms import fields_of, fill, form_of
from tests.console.site import Site, console
from tests.lying_proxy import Liar, LyingProxy, lying
from wirekafka.client.admin.acls import create_acls, list_acls
from wirekafka.client.admin.quotas import alter_quotas
from wirekafka.client.client import Client
from wirekafka.config.checks.authorization import STANDARD_AUTHORIZER
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchResponse
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsResponse
from wirekafka.security.acl import WILDCARD, Acl, Operation, PatternType, Permission, ResourceType

CONTROLS = ("\x1b", "\u202e")
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
PAGES = (
    *("/topics/t", "/topics/t/produce", "/topics/t/partitions", "/group?name=g", "/groups"),
    *("/acls", "/acls/add", "/users", "/user?name=zoe", "/quotas", "/config?kind=topic&name=t"),
    *("/configs", "/brokers", "/transactions", "/queries"),
    *("/topics/t/messages", "/topics/t/messages/0/0", "/topics/t/search?text=x&plain=yes"),
    *("/topics/t/groups", "/topics/t/producers", "/topics/t/live"),
)


def truth(response: Any) -> None:
    """No lie."""


@pytest.fixture(scope="module")
def broker() -> Iterator[wirekafka.Broker]:
    with wirekafka.Broker(topics=["t"], config=SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def proxy(broker: wirekafka.Broker) -> Iterator[LyingProxy]:
    with lying(broker.bootstrap_servers, truth) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def site(proxy: LyingProxy) -> Iterator[Site]:
    with console(str(proxy.address), allow_changes=True) as site:
        yield site


@pytest.fixture
def client(broker: wirekafka.Broker) -> Iterator[Client]:
    with Client(broker.bootstrap_servers) as client:
        yield client


def test_of_two_acls_the_one_is_removed_whose_name_ends_with_a_space(
    site: Site, client: Client
) -> None:
    both = [
        Acl(
            ResourceType.TOPIC,
            "t",
            PatternType.LITERAL,
            name,
            WILDCARD,
            Operation.READ,
            Permission.ALLOW,
        )
        for name in ("User:twin", "User:twin ")
    ]
    create_acls(client, both)
    [link] = [
        str(each["href"])
        for each in site.get("/acls").soup.select("a[href^='/acls/remove']")
        if "twin+&" in str(each["href"])
    ]
    fill(site, site.get(link), "/acls/remove")
    assert [each for each in list_acls(client) if each in both] == both[:1]


def test_the_quota_of_a_user_whose_name_is_a_space_is_not_the_default(
    site: Site, client: Client
) -> None:
    for name in ("", " "):
        alter_quotas(client, {"user": name}, {"producer_byte_rate": 100.0})
    fields = {"for": "a user", "user": " ", "quota": "producer_byte_rate"}
    page = site.get("/quotas/remove", **fields)
    assert fields_of(form_of(page, "/quotas/remove"))["user"] == " "
    fill(site, page, "/quotas/remove")
    rows = site.get("/quotas").rows("section[aria-labelledby=quotas]")
    assert [row[0] for row in rows] == ["user (default)"]


def test_an_option_that_is_secret_is_not_shown_when_it_is_refused(
    site: Site, proxy: LyingProxy, client: Client
) -> None:
    def refuse(response: Any) -> None:
        if isinstance(response, IncrementalAlterConfigsResponse):
            response.responses[0].error_code = Error.INVALID_CONFIG

    [node] = client.metadata([]).brokers
    fields = {"kind": "broker", "name": str(node.node_id), "edit": "sasl.jaas.config"}
    proxy.lie = refuse
    refused = fill(site, site.get("/config", **fields), "/config", value="very secret")
    proxy.lie = truth
    assert refused.status == 400
    assert "very secret" not in refused.text


def test_names_that_clients_choose_control_nothing(site: Site, broker: wirekafka.Broker) -> None:
    name = "".join(("readers", *CONTROLS))
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": name, "client.id": name}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    broker.produce("t", ["x"])
    consumer.subscribe(["t"])
    assert consumer.consume(1, 20)
    consumer.commit(asynchronous=False)
    for path in ("/groups", f"/group?{urlencode({'name': name})}", "/topics/t/groups"):
        shown = site.get(path).words("main")
        assert "readers" in shown, path
        assert not any(each in shown for each in CONTROLS), path
    consumer.close()


def test_records_of_a_partition_that_was_not_asked_for_are_refused(
    site: Site, proxy: LyingProxy, broker: wirekafka.Broker
) -> None:
    def answer_another(response: Any) -> None:
        if isinstance(response, FetchResponse):
            response.responses[0].partitions[0].partition_index = 7

    broker.produce("t", ["x"])
    proxy.lie = answer_another
    try:
        for path in ("/topics/t/messages", "/topics/t/search?text=x&plain=yes"):
            page = site.get(path)
            assert page.status in (400, 502), path
            assert "answered for t-7 unasked" in page.words("[role=alert]"), path
    finally:
        proxy.lie = truth


@pytest.mark.parametrize("seed", range(16))
def test_lies_of_brokers_fail_no_page_and_control_nothing(
    site: Site, proxy: LyingProxy, seed: int
) -> None:
    proxy.lie = Liar(seed)
    try:
        for path in PAGES:
            page = site.get(path)
            assert page.status != 500, path
            shown = page.soup.select_one("main")
            assert shown is not None
            assert not any(each in shown.get_text() for each in CONTROLS), (path, shown.get_text())
    finally:
        proxy.lie = truth

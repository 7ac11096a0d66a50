"""The pages of configurations, ACLs, users and quotas."""

import pytest

from tests.console.site import console
from wirekafka import Broker
from wirekafka.config.client_config import ClientConfig
from wirekafka.testing import Allow, Deny


def options(site, **query):
    return {row[0].split()[0]: row[1:] for row in site.get("/config", **query).rows("#options")}


def test_what_is_set_is_shown_with_its_source(broker, site):
    broker.create_topic("compact", config={"cleanup.policy": "compact"})
    shown = options(site, kind="topic", name="compact")
    assert shown["cleanup.policy"][:2] == ["compact", "topic"]
    assert "delete default: log.cleanup.policy" in shown["cleanup.policy"][2]
    assert "retention.ms" not in shown


def test_defaults_are_shown_on_demand_with_their_meaning(broker, site):
    broker.create_topic("plain")
    page = site.get("/config", kind="topic", name="plain", all="1", q="retention.ms")
    [row] = [row for row in page.rows("#options") if row[0].startswith("retention.ms")]
    assert row[1:3] == ["604800000", "default"]
    assert page.soup.select("#options details"), "documentation"


@pytest.mark.parametrize(("kind", "name"), [("planet", "earth"), ("topic", "")])
def test_what_has_no_configuration_is_not_found(site, kind, name):
    assert site.get("/config", kind=kind, name=name).status == 404


def test_an_option_is_set_and_deleted(broker, changing):
    broker.create_topic("kept")
    fields = {"kind": "topic", "name": "kept", "option": "retention.ms"}
    changing.post("/config", **fields, action="set", value="1234")
    assert options(changing, kind="topic", name="kept")["retention.ms"][:2] == ["1234", "topic"]
    changing.post("/config", **fields, action="delete")
    assert "retention.ms" not in options(changing, kind="topic", name="kept")


def test_a_value_that_the_broker_refuses_is_a_page_with_its_reason(broker, changing):
    broker.create_topic("strict")
    page = changing.post(
        "/config", kind="topic", name="strict", option="retention.ms", value="soon"
    )
    assert page.status == 400
    assert "INVALID_CONFIG" in page.words("[role=alert]")


def test_a_name_is_text_and_never_markup(broker, changing):
    page = changing.get("/config", kind="topic", name="<script>alert(1)</script>")
    assert not page.soup.select("main script")
    assert "<script>" in page.words("main")


def test_without_an_authorizer_there_are_no_acls(site):
    assert "everybody may do everything" in site.get("/acls").words("main")


def test_acls_and_users_are_shown():
    acls = [
        Allow("ann", "read", topic="orders*"),
        Deny("bob", "write", topic="orders", host="10.0.0.1"),
        Allow("root", "all", cluster=True),
    ]
    config = ClientConfig(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    )
    with (
        Broker(users={"ann": "1", "root": "2"}, acls=acls) as broker,
        console(broker.bootstrap_servers, config=config) as site,
    ):
        site.log_in("root", "2")
        page = site.get("/acls")
        rules = page.rows("section[aria-labelledby=rules]")
        assert ["User:ann", "Allow", "READ", "Topic", "prefixed", "orders", "*"] in rules
        assert ["User:bob", "Deny", "WRITE", "Topic", "literal", "orders", "10.0.0.1"] in rules
        users = site.get("/users").rows("section[aria-labelledby=users]")
        assert [row[:2] for row in users] == [["ann", "SCRAM-SHA-512"], ["root", "SCRAM-SHA-512"]]
        found = site.get("/acls", q="bob").rows("section[aria-labelledby=rules]")
        assert [row[0] for row in found] == ["User:bob"]

"""Who may use the console: logins, tokens of forms, read-only consoles."""

import time
from types import SimpleNamespace

import pytest

import wirekafka
from tests.console.site import Site, console
from wirekafka.config.client_config import ClientConfig
from wirekafka.console import access
from wirekafka.testing import Allow

USERS = {"ann": "ann's secret", "bob": 'bob"s \\ secret'}


@pytest.fixture(scope="module")
def secured():
    """A console of a broker with SASL, whose users log in."""
    with wirekafka.Broker(users=USERS) as broker:
        config = ClientConfig(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        )
        with console(broker.bootstrap_servers, config=config, allow_changes=True) as site:
            yield site


@pytest.fixture
def visitor(secured) -> Site:
    """A visitor without a session."""
    return secured.another()


def test_a_visitor_without_a_session_is_sent_to_the_login(visitor):
    page = visitor.get("/brokers")
    assert page.url.endswith("/login?next=%2Fbrokers")
    assert not page.soup.select("header nav a"), "no links to pages"


@pytest.mark.parametrize(("name", "password"), USERS.items())
def test_a_user_of_the_brokers_logs_in_and_goes_on(visitor, name, password):
    page = visitor.log_in(name, password, "/login?next=%2Fbrokers")
    assert page.words("h1") == "Brokers"
    assert page.words("header .who form").startswith(name)


def test_a_wrong_password_is_refused_as_by_the_broker(visitor):
    page = visitor.log_in("ann", "wrong")
    assert page.status == 401
    assert "Authentication failed" in page.words("[role=alert]")
    assert visitor.get("/brokers").words("h1") == "Log in"


def test_the_session_ends_with_the_logout(visitor):
    visitor.log_in("ann", USERS["ann"])
    before = visitor.cookie()
    visitor.post("/logout")
    visitor.set_cookie(before)
    assert visitor.get("/brokers").words("h1") == "Log in"


def test_live_output_ends_with_the_session(secured, visitor):
    visitor.log_in("ann", USERS["ann"])
    visitor.post("/topics", name="live")
    events = visitor.events("/topics/live/live/events")
    assert next(events)[0] == "at"
    visitor.post("/logout")
    assert dict(events)["failed"] == "The session has ended: log in again."


def test_an_open_page_keeps_no_session_from_its_end(visitor, monkeypatch):
    visitor.log_in("ann", USERS["ann"])
    now_s = time.monotonic()
    monkeypatch.setattr(access, "_IDLE_S", 100.0)
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: now_s))
    refreshing = {"X-Refresh": "yes"}
    now_s += 60
    assert visitor.get_with("/brokers", refreshing).words("h1") == "Brokers"
    assert visitor.get("/brokers").words("h1") == "Brokers"
    for _ in range(2):
        now_s += 60
        shown = visitor.get_with("/brokers", refreshing).words("h1")
    assert shown == "Log in"


def test_the_login_gets_a_new_session_name(visitor):
    """So that nobody can make a visitor use a session whose name is known."""
    visitor.get("/login")
    before = visitor.cookie()
    visitor.log_in("ann", USERS["ann"])
    assert visitor.cookie() != before


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example/", "/\\evil.example"])
def test_the_login_leads_to_no_other_site(visitor, place):
    page = visitor.log_in("ann", USERS["ann"], f"/login?next={place}")
    assert page.url == f"{visitor.base}/"


def test_what_a_user_may_not_see_is_not_shown():
    """Ann may read one topic and its group; the broker's own counters are not for her."""
    acls = [Allow("ann", ("read", "describe"), topic="orders")]
    with wirekafka.Broker(users=USERS, acls=acls, topics=["orders", "payments"]) as broker:
        config = ClientConfig(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
        )
        with console(broker.bootstrap_servers, config=config) as site:
            site.log_in("ann", USERS["ann"])
            names = {name for _, name in site.get("/configs", kind="topic").rows("#resources")}
            assert names == {"orders"}
            assert "CLUSTER_AUTHORIZATION_FAILED" in site.get("/acls").words("main")


def test_a_form_needs_the_token_of_the_session(changing):
    for token in ("", "0" * 64, "ü" * 64, changing.another().token()):
        fields = {"token": token} if token else {}
        page = changing.submit("/config", {"kind": "broker", "name": "1", **fields})
        assert page.status == 403
        assert "not sent by a page of this session" in page.words("[role=alert]")


@pytest.mark.parametrize("origin", ["http://evil.example", "http://[no-url", "null"])
def test_a_form_of_another_origin_is_refused(changing, origin):
    fields = {"token": changing.token(), "kind": "broker", "name": "", "option": "x", "value": "1"}
    page = changing.submit("/config", fields, {"Origin": origin})
    assert page.status == 403


def test_a_read_only_console_refuses_changes(site):
    page = site.post("/config", kind="broker", name="", option="log.retention.ms", value="1")
    assert page.status == 403
    assert "--allow-changes" in page.words("[role=alert]")
    assert not site.get("/config", kind="broker", name="").soup.select("form[method=post]")


def test_failures_of_the_cluster_are_pages(broker):
    with console("127.0.0.1:1") as site:
        page = site.get("/brokers")
        assert page.status == 502
        assert "cannot connect to 127.0.0.1:1" in page.words("[role=alert]")

"""ACLs, users and quotas are changed by forms, with the rights of the visitor on the brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import wirekafka
from tests.console.forms import fields_of, fill, form_of
from tests.console.site import Shown, Site, console
from tests.planted_secrets import MARK, planted
from wirekafka.config.client_config import ClientConfig
from wirekafka.testing import Allow

USERS = {"root": "root's secret", "ann": "ann's secret"}
HOSTILE = '<img src=x onerror="alert(1)">\u202e'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
ACL = {
    "principal": "User:ann",
    "permission": "ALLOW",
    "operation": "READ",
    "type": "TOPIC",
    "name": "orders",
    "pattern": "PREFIXED",
    "host": "*",
}
RULES = "section[aria-labelledby=rules]"


@pytest.fixture(scope="module")
def stage() -> Iterator[Site]:
    acls = [Allow("root", "all", cluster=True), Allow("ann", "describe", cluster=True)]
    with (
        wirekafka.Broker(users=USERS, acls=acls) as broker,
        console(broker.bootstrap_servers, config=ClientConfig(SASL), allow_changes=True) as site,
    ):
        yield site


@pytest.fixture(scope="module")
def root(stage: Site) -> Site:
    visitor = stage.another()
    visitor.log_in("root", USERS["root"])
    return visitor


@pytest.fixture(scope="module")
def ann(stage: Site) -> Site:
    """A visitor who may see the cluster, and change nothing."""
    visitor = stage.another()
    visitor.log_in("ann", USERS["ann"])
    return visitor


def users(site: Site) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in site.get("/users").rows("section[aria-labelledby=users]"):
        found.setdefault(row[0], []).append(row[1])
    return found


def quotas(site: Site) -> list[list[str]]:
    return [row[:4] for row in site.get("/quotas").rows("section[aria-labelledby=quotas]")]


def alert(page: Shown) -> str:
    return page.words("[role=alert]")


def test_an_acl_is_added_after_a_preview_and_removed(root: Site) -> None:
    preview = root.get("/acls/add", **ACL)
    assert "User:ann" in preview.words("section[aria-labelledby=preview]")
    before = root.get("/acls").rows(RULES)
    added = fill(root, preview, "/acls/add")
    assert added.url.endswith("/acls?q=User%3Aann")
    row = ["User:ann", "Allow", "READ", "Topic", "prefixed", "orders", "*", "remove"]
    assert [each for each in root.get("/acls").rows(RULES) if each not in before] == [row]
    assert "There is this ACL already" in root.get("/acls/add", **ACL).words("main")
    [link] = [
        str(each["href"]) for each in added.soup.select("td a") if "prefixed" in _row_of(each)
    ]
    assert fill(root, root.get(link), "/acls/remove").status == 200
    assert root.get("/acls").rows(RULES) == before
    assert root.get(link).status == 404


def test_the_form_of_an_acl_leads_to_its_preview_and_names_no_resource_twice(root: Site) -> None:
    form = root.get("/acls").soup.select_one("form[action='/acls/add']")
    assert form is not None and form["method"] == "get"
    fields = {**fields_of(form), "principal": "User:bob", "type": "CLUSTER", "operation": "ALTER"}
    preview = root.get("/acls/add", **fields)
    assert "Cluster kafka-cluster , literal" in preview.words("section[aria-labelledby=preview]")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"principal": "ann"}, "such as User:alice, not 'ann'"),
        ({"name": " "}, "Enter the name of a resource"),
        ({"operation": "ANY"}, "'ANY' is none of the operations ALL, READ"),
        ({"type": "TABLE"}, "'TABLE' is none of the types"),
        ({"name": "x" * 2000}, "at most 1000 characters"),
    ],
)
def test_an_acl_that_is_none_is_refused_beside_the_form_as_it_was_entered(
    root: Site, changed: dict[str, str], reason: str
) -> None:
    page = root.get("/acls/add", **{**ACL, **changed})
    assert page.status == 400 and reason in alert(page)
    form = page.soup.select_one("form[action='/acls/add'][method=get]")
    assert form is not None
    entered = {**ACL, **changed}
    for name in ("principal", "name", "host"):
        assert fields_of(form)[name] == entered[name]
    before = root.get("/acls").rows(RULES)
    assert root.post("/acls/add", **entered).status == 400
    assert root.get("/acls").rows(RULES) == before


def test_what_the_brokers_refuse_is_said_with_the_acl_that_was_to_be_added(root: Site) -> None:
    preview = root.get("/acls/add", **{**ACL, "type": "CLUSTER"})
    page = fill(root, preview, "/acls/add")
    assert page.status == 400 and "INVALID_REQUEST" in alert(page)
    assert fields_of(form_of(page, "/acls/add"))["name"] == "orders"


def test_a_user_is_added_logs_in_gets_a_new_password_and_is_removed(root: Site) -> None:
    page = fill(
        root,
        root.get("/users"),
        "/users",
        name="carl",
        password="first",
        password_again="first",
        mechanism="both",
    )
    assert page.status == 200
    assert users(root)["carl"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert root.another().log_in("carl", "first").words("h1") == "Overview"
    fields = {"mechanism": "both", "password": "second", "password_again": "second"}
    assert fill(root, root.get("/user", name="carl"), "/user/password", **fields).status == 200
    assert root.another().log_in("carl", "first").status == 401
    assert root.another().log_in("carl", "second").status == 200
    removal = {"mechanism": "SCRAM-SHA-256", "confirmed": "carl"}
    assert fill(root, root.get("/user", name="carl"), "/user/remove", **removal).status == 200
    assert users(root)["carl"] == ["SCRAM-SHA-512"]
    removal["mechanism"] = "SCRAM-SHA-512"
    assert fill(root, root.get("/user", name="carl"), "/user/remove", **removal).status == 200
    assert "carl" not in users(root)
    assert root.get("/user", name="carl").status == 404


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": ""}, "Enter a name"),
        ({"name": "ann"}, "ann has a password for SCRAM-SHA-512 already"),
        ({"password": "", "password_again": ""}, "Enter a password"),
        ({"password_again": planted("other")}, "The two passwords differ"),
        ({"iterations": "100"}, "from 4096 to 16384, not '100'"),
        ({"mechanism": "PLAIN"}, "Choose one of the mechanisms"),
    ],
)
def test_a_refused_user_is_entered_again_without_the_passwords(
    root: Site, changed: dict[str, str], reason: str
) -> None:
    fields = {
        "name": f"dora {HOSTILE}",
        "password": planted("one"),
        "password_again": planted("one"),
        "mechanism": "SCRAM-SHA-512",
        "iterations": "5000",
        **changed,
    }
    before = users(root)
    page = fill(root, root.get("/users"), "/users", **fields)
    assert page.status == 400 and reason in alert(page)
    again = fields_of(form_of(page, "/users"))
    assert (again["name"], again["iterations"]) == (fields["name"], fields["iterations"])
    assert (again["password"], again["password_again"]) == ("", "")
    assert MARK not in page.text and not page.soup.select("main img")
    assert users(root) == before


def test_the_password_of_a_user_that_is_not_confirmed_is_kept(root: Site) -> None:
    page = fill(root, root.get("/user", name="ann"), "/user/remove", confirmed="an")
    assert page.status == 400 and "enter ann to remove" in alert(page)
    assert fields_of(form_of(page, "/user/remove"))["confirmed"] == "an"
    assert users(root)["ann"] == ["SCRAM-SHA-512"]


def test_who_gets_a_new_password_logs_in_again(root: Site, stage: Site) -> None:
    fields = {"name": "eve", "password": "old", "password_again": "old"}
    fill(root, root.get("/users"), "/users", **fields)
    fill(root, _previewed(root, principal="User:eve"), "/acls/add")
    visitor = stage.another()
    visitor.log_in("eve", "old")
    change = {"password": "new", "password_again": "new"}
    page = fill(visitor, visitor.get("/user", name="eve"), "/user/password", **change)
    assert page.words("h1") == "Log in"
    assert visitor.log_in("eve", "new").words("h1") == "Overview"


def test_a_form_of_very_many_fields_is_refused(root: Site) -> None:
    page = root.submit("/users", {f"field-{index}": "x" for index in range(2_000)})
    assert page.status == 413 and "1000 fields" in page.text


def test_quotas_are_set_changed_and_removed(root: Site) -> None:
    fields = {"for": "a client id of a user", "user": "ann", "value": "1048576.0"}
    page = fill(root, root.get("/quotas"), "/quotas", **fields)
    assert page.status == 200
    line = ["user ann, client-id (default)", "producer_byte_rate", "1048576", "bytes/s"]
    assert quotas(root) == [line]
    change, removal = (str(each["href"]) for each in page.soup.select("td a"))
    fill(root, root.get(change), "/quotas", value="2048")
    assert quotas(root) == [[*line[:2], "2048", line[3]]]
    assert "2048 bytes/s" in root.get(removal).words("main")
    assert fill(root, root.get(removal), "/quotas/remove").status == 200
    assert quotas(root) == [["There are none."]]
    assert root.get(removal).status == 404


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"value": "much"}, "greater than 0, not 'much'"),
        ({"value": "nan"}, "greater than 0, not 'nan'"),
        ({"ip": "10.0.0.1"}, "Leave ip empty: the quota is for a user"),
        ({"for": "the moon"}, "one of these: a user, a client id"),
        ({"quota": "connection_creation_rate"}, "INVALID_REQUEST"),
        ({"quota": "request_percentages"}, "INVALID_REQUEST"),
    ],
)
def test_a_refused_quota_is_entered_again(root: Site, changed: dict[str, str], reason: str) -> None:
    fields = {"for": "a user", "user": HOSTILE, "value": "7", **changed}
    page = fill(root, root.get("/quotas"), "/quotas", **fields)
    assert page.status == 400 and reason in alert(page)
    again = fields_of(form_of(page, "/quotas"))
    assert {name: again[name] for name in ("user", "value")} == {
        name: fields[name] for name in ("user", "value")
    }
    assert not page.soup.select("main img")
    assert quotas(root) == [["There are none."]]


def test_a_visitor_changes_nothing_that_the_brokers_do_not_allow(ann: Site, root: Site) -> None:
    before = users(root), root.get("/acls").rows(RULES)
    password = {"password": planted("new"), "password_again": planted("new")}
    pages = [
        fill(ann, ann.get("/acls/add", **ACL), "/acls/add"),
        fill(ann, ann.get("/users"), "/users", name="mallory", **password),
        fill(ann, ann.get("/user", name="root"), "/user/password", **password),
        fill(ann, ann.get("/user", name="root"), "/user/remove", confirmed="root"),
        ann.post(
            "/quotas", **{"for": "a user", "user": "ann"}, quota="producer_byte_rate", value=9
        ),
    ]
    for page in pages:
        assert page.status in (400, 502), page.text
        assert "CLUSTER_AUTHORIZATION_FAILED" in alert(page)
        assert MARK not in page.text
    assert (users(root), root.get("/acls").rows(RULES)) == before


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/acls/add", ACL),
        ("/acls/remove", ACL),
        ("/users", {"name": "x", "password": "p", "password_again": "p"}),
        ("/user/password", {"name": "ann", "password": "p", "password_again": "p"}),
        ("/user/remove", {"name": "ann", "confirmed": "ann"}),
        ("/quotas", {"for": "a user", "quota": "producer_byte_rate", "value": "1"}),
        ("/quotas/remove", {"for": "a user", "quota": "producer_byte_rate"}),
    ],
)
def test_changes_need_the_token_and_a_console_that_allows_them(
    root: Site, site: Site, path: str, fields: dict[str, str]
) -> None:
    before = users(root), root.get("/acls").rows(RULES), quotas(root)
    assert root.submit(path, {**fields, "token": "0" * 64}).status == 403
    refused = site.post(path, **fields)
    assert refused.status == 403 and "--allow-changes" in alert(refused)
    assert (users(root), root.get("/acls").rows(RULES), quotas(root)) == before


def test_a_read_only_console_has_no_forms_of_changes(site: Site) -> None:
    for path in ("/acls", "/users", "/quotas"):
        page = site.get(path)
        assert page.status == 200
        assert not page.soup.select("form[method=post]")
    preview = site.get("/acls/add", **ACL)
    assert not preview.soup.select("form[method=post]")
    assert "--allow-changes" in preview.words("section[aria-labelledby=preview]")


def test_passwords_are_in_no_log(root: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        fields = {"password": planted("x"), "password_again": planted("x")}
        fill(root, root.get("/users"), "/users", name="fred", **fields)
        fill(root, root.get("/users"), "/users", name="fred", **fields)
    assert MARK not in caplog.text


def _previewed(root: Site, **changed: str) -> Shown:
    """The preview of an ACL by which a user may do everything."""
    every = {"operation": "ALL", "type": "CLUSTER", "name": "", "pattern": "LITERAL"}
    return root.get("/acls/add", **{**ACL, **every, **changed})


def _row_of(cell: object) -> str:
    row = cell.find_parent("tr")  # type: ignore[attr-defined]
    return str(row.get_text(" "))

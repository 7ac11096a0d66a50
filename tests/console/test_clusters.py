"""Several clusters in one console: each has its own pages, rights, sessions and registry."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import wirekafka
from tests.console import browser as chromium
from tests.console.forms import fill
from tests.console.site import Shown, Site
from tests.console.walk import NARROW, WIDE, Walk
from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.config.option import ConfigError
from wirekafka.console.cluster_file import read_clusters
from wirekafka.console.sampler import Sampler
from wirekafka.console.service import clusters_server
from wirekafka.console.settings import ConsoleSettings
from wirekafka.testing import Allow

USERS = {"ann": "ann's secret"}
COMMON = ConsoleSettings("unused:1", Address("127.0.0.1", 0))
_ALL_LINKS = re.compile(r'\b(?:href|action|formaction|src|data-[a-z-]+)="(/[^"]*)"')


class Stage(NamedTuple):
    """An open cluster, two clusters with logins of the same user, and one that is down."""

    site: Site
    open: wirekafka.Broker


def clusters_file(directory: Path, **texts: str) -> Path:
    """A file of clusters, each with lines of its own."""
    file = directory / "clusters.toml"
    file.write_text("".join(f"[{name}]\n{text}\n" for name, text in texts.items()))
    return file


@contextmanager
def served(file: Path) -> Iterator[Site]:
    server = clusters_server(read_clusters(file, COMMON), Sampler)
    server.start()
    try:
        yield Site(server.address)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("clusters")
    (directory / "sasl.properties").write_text("security.protocol=SASL_PLAINTEXT\n")
    acls = [Allow("ann", "all", topic="*", cluster=True)]
    with (
        wirekafka.Broker(topics=["of-open"], schema_registry=True) as open,
        wirekafka.Broker(users=USERS, acls=acls, topics=["of-first"]) as first,
        wirekafka.Broker(users=USERS, acls=acls, topics=["of-second"]) as second,
    ):
        login = 'command-config = "sasl.properties"\nallow-changes = true'
        file = clusters_file(
            directory,
            open=f'bootstrap-server = "{open.bootstrap_servers}"\n'
            f'schema-registry = "{open.schema_registry_url}"',
            first=f'bootstrap-server = "{first.bootstrap_servers}"\n{login}',
            second=f'bootstrap-server = "{second.bootstrap_servers}"\n{login}',
            down='bootstrap-server = "127.0.0.1:1"',
        )
        with served(file) as site:
            yield Stage(site, open)


def topics(site: Site, cluster: str) -> list[str]:
    page = site.get(f"/c/{cluster}/topics")
    return [row[0] for row in page.rows("#topics") if row[0].startswith("of-")]


def log_in(site: Site, cluster: str, password: str | None = None) -> Shown:
    path = f"/c/{cluster}/login"
    fields = {"name": "ann", "password": password or USERS["ann"], "token": site.token(path)}
    return site.submit(path, fields)


def session(site: Site, cluster: str) -> str:
    [found] = [each for each in site.cookies if each.path == f"/c/{cluster}"]
    assert found.value is not None
    return found.value


def use_session(site: Site, cluster: str, value: str) -> None:
    site.get(f"/c/{cluster}/login")
    [found] = [each for each in site.cookies if each.path == f"/c/{cluster}"]
    found.value = value
    site.cookies.set_cookie(found)


def test_the_first_page_is_that_of_the_first_cluster(stage: Stage) -> None:
    page = stage.site.another().get("/")
    assert page.url.endswith("/c/open/") and page.words("h1") == "Overview"
    assert page.words("title") == "Overview – open – wirekafka console"


def test_each_cluster_has_its_own_topics_and_links_to_the_others(stage: Stage) -> None:
    visitor = stage.site.another()
    assert topics(visitor, "open") == ["of-open"]
    for name in ("first", "second"):
        assert log_in(visitor, name).status == 200
        assert topics(visitor, name) == [f"of-{name}"]
    page = visitor.get("/c/first/topics")
    links = {each.get_text(): each["href"] for each in page.soup.select(".clusters a")}
    assert links == {name: f"/c/{name}/" for name in ("open", "first", "second", "down")}
    assert page.words(".clusters a[aria-current]") == "first"


def test_a_session_of_one_cluster_is_none_of_another(stage: Stage) -> None:
    """Though the user has the same name and the same password in both."""
    visitor = stage.site.another()
    log_in(visitor, "first")
    assert visitor.get("/c/second/topics").words("h1") == "Log in"
    use_session(visitor, "second", session(visitor, "first"))
    assert visitor.get("/c/second/topics").words("h1") == "Log in"
    assert topics(visitor, "first") == ["of-first"]


def test_a_token_of_one_cluster_is_none_of_another(stage: Stage) -> None:
    visitor = stage.site.another()
    log_in(visitor, "first")
    log_in(visitor, "second")
    use_session(visitor, "second", session(visitor, "first"))
    token = visitor.token("/c/first/")
    page = visitor.submit("/c/second/topics", {"name": "made", "token": token})
    assert page.status == 403 and "not sent by a page of this session" in page.text


def test_the_cookie_of_a_console_with_one_cluster_hides_no_session(stage: Stage) -> None:
    """Browsers send it to all paths of the host, behind the cookie of the cluster."""
    visitor = stage.site.another()
    log_in(visitor, "first")
    cookies = f"wirekafka_console-first={session(visitor, 'first')}; wirekafka_console=stale"
    page = visitor.another()._open("/c/first/topics", None, {"Cookie": cookies})
    assert page.words("h1") == "Topics"


def test_logging_out_of_one_cluster_leaves_the_session_of_another(stage: Stage) -> None:
    visitor = stage.site.another()
    for name in ("first", "second"):
        log_in(visitor, name)
    page = visitor.submit("/c/first/logout", {"token": visitor.token("/c/first/")})
    assert page.url.endswith("/c/first/login")
    assert visitor.get("/c/first/topics").words("h1") == "Log in"
    assert topics(visitor, "second") == ["of-second"]


def test_the_login_leads_on_within_its_cluster_only(stage: Stage) -> None:
    visitor = stage.site.another()
    asked = visitor.get("/c/first/topics/of-first")
    assert asked.url.endswith("/c/first/login?next=%2Ftopics%2Fof-first")
    path = asked.url.removeprefix(visitor.base)
    fields = {"name": "ann", "password": USERS["ann"], "token": visitor.token(path)}
    assert visitor.submit(path, fields).words("h1") == "Topic of-first"
    for place in ("//evil.example", "https://evil.example/", "/../second/"):
        other = stage.site.another()
        path = f"/c/first/login?next={place}"
        page = other.submit(path, {**fields, "token": other.token(path)})
        assert page.url.startswith(f"{other.base}/c/"), page.url


def test_what_is_allowed_in_one_cluster_is_not_allowed_in_another(stage: Stage) -> None:
    visitor = stage.site.another()
    log_in(visitor, "first")
    page = fill(visitor, visitor.get("/c/first/topics"), "/c/first/topics", name="of-form")
    assert page.url.endswith("/c/first/topics/of-form")
    gone = fill(visitor, page, "/c/first/topics/of-form/delete", name="of-form")
    assert gone.status == 200
    refused = fill(visitor, visitor.get("/c/first/topics"), "/c/first/topics", name="a b")
    assert refused.status == 400 and "INVALID_TOPIC" in refused.words("[role=alert]")
    assert "read-only" in visitor.get("/c/open/topics").words("header")
    token = visitor.token("/c/open/")
    assert visitor.submit("/c/open/topics", {"name": "made", "token": token}).status == 403
    assert "made" not in stage.open.topics()


def test_a_cluster_that_is_down_hides_no_other(stage: Stage) -> None:
    visitor = stage.site.another()
    page = visitor.get("/c/down/brokers")
    assert page.status == 502 and "cannot connect" in page.words("[role=alert]")
    assert page.soup.select(".clusters a[href='/c/open/']")
    assert topics(visitor, "open") == ["of-open"]


def test_the_registry_of_one_cluster_is_in_no_other(stage: Stage) -> None:
    visitor = stage.site.another()
    log_in(visitor, "first")
    assert visitor.get("/c/open/schemas").status == 200
    assert visitor.get("/c/first/schemas").status == 404


def test_paths_without_a_cluster_are_not_found(stage: Stage) -> None:
    for path in ("/topics", "/c/other/", "/c/openx/topics", "/static/console.css"):
        assert stage.site.another().get(path).status == 404, path
    page = stage.site.another().submit("/c/first/topics", {}, {"Host": "evil.example"})
    assert page.status == 421


def test_files_are_kept_and_pages_are_not(stage: Stage) -> None:
    visitor = stage.site.another()
    assert visitor.get("/c/open/static/console.css").headers.get("Cache-Control") is None
    page = visitor.get("/c/open/topics")
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_all_links_stay_in_their_cluster_but_those_to_the_others(stage: Stage) -> None:
    """Every page that is reached by links is below the path of the cluster."""
    visitor = stage.site.another()
    log_in(visitor, "first")
    stage.open.produce("of-open", ["/topics href=\"/topics\" src='/x'"])
    waiting, seen = ["/c/first/", "/c/open/"], set()
    while waiting and len(seen) < 120:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        root = "/".join(path.split("/")[:3])
        page = visitor.get(path)
        assert page.status in (200, 404), (path, page.status)
        assert page.url.startswith(visitor.base + root + "/"), (path, page.url)
        for link in _ALL_LINKS.findall(page.text.replace("&amp;", "&")):
            is_switch = link.count("/") == 3 and link.startswith("/c/") and link.endswith("/")
            assert link.startswith(root + "/") or is_switch, (path, link)
        for each in page.soup.select("main a[href^='/']:not([download]), header nav a"):
            waiting.append(str(each["href"]).partition("#")[0])
    for name in ("topics/of-open/messages", "acls", "users", "quotas", "schemas", "configs"):
        assert f"/c/open/{name}" in seen, name
    assert {"/c/first/topics/of-first/produce", "/c/first/users"} <= seen


@pytest.mark.skipif(chromium.executable() is None, reason="no Chromium is installed")
def test_clusters_are_switched_by_the_keyboard(stage: Stage) -> None:
    with chromium.browser() as browser:
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            walk = Walk.open(browser, stage.site.base, width, scheme)
            walk.visit(["/c/open/", "/c/open/brokers"])
            page = walk.page
            page.keyboard.press("g")
            with page.expect_navigation():
                page.keyboard.press("b")
            assert page.url.endswith("/c/open/brokers")
            page.locator(".clusters summary").focus()
            page.keyboard.press("Enter")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("Tab")
            page.keyboard.press("Tab")
            with page.expect_navigation():
                page.keyboard.press("Enter")
            assert page.url.endswith("/c/first/login?next=%2F")
            page.get_by_label("Name").fill("ann")
            page.get_by_label("Password").fill(USERS["ann"])
            page.keyboard.press("Enter")
            page.wait_for_url("**/c/first/")
            walk.visit(["/c/first/topics"])
            page.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no cluster"),
        ("[a", "is not TOML"),
        ("a = 1", "outside of a table"),
        ("[a]\n", "has no bootstrap-server"),
        ('["a/b"]\nbootstrap-server = "b:1"', "'a/b' cannot be the name of a cluster"),
        ('[".."]\nbootstrap-server = "b:1"', "'..' cannot be the name"),
        ('[a]\nbootstrap-server = "b:1"\nport = 1', "'port', which is none of bootstrap-server"),
        ('[a.b]\nbootstrap-server = "b:1"', 'as ["a.b"]'),
        ("[a]\nbootstrap-server = 9092", "bootstrap-server of a must be a text"),
        ('[a]\nbootstrap-server = "b:1"\nallow-changes = "no"', "must be true or false"),
    ],
)
def test_a_file_that_is_none_of_clusters_is_explained(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text(text)
    with pytest.raises(CliError, match=re.escape(reason)):
        read_clusters(file, COMMON)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="cannot read"):
        read_clusters(tmp_path / "missing.toml", COMMON)
    file = clusters_file(tmp_path, a='bootstrap-server = "b:1"\ncommand-config = "x.properties"')
    with pytest.raises((CliError, ConfigError), match=r"x\.properties"):
        read_clusters(file, COMMON)


def test_each_cluster_has_a_secret_of_its_own(tmp_path: Path) -> None:
    file = clusters_file(tmp_path, a='bootstrap-server = "b:1"', b='bootstrap-server = "b:1"')
    first, second = read_clusters(file, COMMON)
    assert len({first.secret, second.secret, COMMON.secret}) == 3
    assert (first.root, second.root, COMMON.root) == ("/c/a", "/c/b", "")


def console_command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wirekafka", "console", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("form", ["argument", "-b", "--clusters"])
def test_the_command_takes_its_brokers_in_each_form(
    stage: Stage, tmp_path: Path, form: str
) -> None:
    address = stage.open.bootstrap_servers
    file = clusters_file(tmp_path, only=f'bootstrap-server = "{address}"')
    arguments = {"argument": [address], "-b": ["-b", address], "--clusters": ["--clusters", file]}
    process = console_command(*map(str, arguments[form]))
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("wirekafka console: http://"), process.communicate()
        host, _, port = ready.strip().rpartition("//")[2].rstrip("/").rpartition(":")
        page = Site(Address(host, int(port))).get("/")
        assert page.words("h1") == "Overview"
        assert page.url.endswith("/c/only/") == (form == "--clusters")
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["b:1", "-b", "b:1"], "give the brokers once"),
        (["--clusters", "x.toml", "-b", "b:1"], "--bootstrap-server is for a console of one"),
        (["--clusters", "x.toml", "b:1"], "HOST:PORT is for a console of one cluster"),
        (["--clusters", "missing.toml"], "cannot read missing.toml"),
    ],
)
def test_the_command_explains_arguments_that_do_not_fit(
    tmp_path: Path, arguments: list[str], reason: str
) -> None:
    output, errors = console_command(*arguments).communicate(timeout=60)
    assert output == "" and reason in errors and "Traceback" not in errors

"""Slow and many connections to the console, and requests that other sites have caused."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.console.site import Site, console
from tests.eventually import eventually
from tests.server.test_bounded_http import is_closed
from wirekafka.config.address import Address
from wirekafka.web import connection


def address_of(site: Site) -> Address:
    return Address.parse(urlsplit(site.base).netloc)


def status(site: Site, path: str, method: str = "GET", **headers: str) -> int:
    client = http.client.HTTPConnection(*address_of(site), timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client.request(method, path, headers=named)
    with client.getresponse() as response:
        response.read(100)
        return response.status


@pytest.mark.parametrize(
    "head", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET / HTTP/1.1\r\n"]
)
def test_a_request_has_a_deadline(site: Site, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    with socket.create_connection(address_of(site)) as client:
        client.sendall(head)
        eventually(lambda: is_closed(client))


def test_a_form_has_a_deadline_however_it_trickles_in(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    with socket.create_connection(address_of(site)) as client:
        client.sendall(b"POST /logout HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")

        def closed_meanwhile() -> bool:
            try:
                client.sendall(b"a")
            except ConnectionError:
                return True
            return is_closed(client)

        eventually(closed_meanwhile)


def test_a_connection_serves_one_request_after_the_other(site: Site) -> None:
    client = http.client.HTTPConnection(*address_of(site), timeout=20)
    for _ in range(3):
        client.request("GET", "/static/console.js")
        with client.getresponse() as response:
            assert response.status == 200 and response.read()


def test_pages_are_served_while_many_connections_send_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.HttpConnection, "most_connections", 12)
    monkeypatch.setattr(connection.HttpConnection, "most_of_address", 8)
    with ExitStack() as stack:
        clients = []
        for number in range(30):
            source = (f"127.0.0.{2 + number // 15}", 0)
            client = socket.create_connection(address_of(site), source_address=source)
            clients.append(stack.enter_context(client))
            assert status(site, "/static/console.js") == 200
        eventually(lambda: sum(map(is_closed, clients)) >= 18)


def test_a_client_that_takes_no_response_is_given_up(
    broker: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALLED_S", 0.3)
    with console(broker.bootstrap_servers) as site, socket.socket() as client:  # type: ignore[attr-defined]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address_of(site))
        request = b"GET /static/console.css HTTP/1.1\r\nHost: localhost\r\n\r\n"

        def is_reset() -> bool:
            try:
                client.sendall(request * 100, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return False

        eventually(is_reset)


FOREIGN = [
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Origin": "http://evil.test"},
    {"Origin": "null"},
    {"Referer": "http://evil.test/page"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize(
    "path",
    [
        "/wire/events?client=a",
        "/wire/watch?client=a&plain=yes",
        "/topics/t/search/events?text=a",
        "/topics/t/search?text=a&plain=yes",
    ],
)
def test_another_site_starts_no_watch_and_no_search(
    site: Site, path: str, headers: dict[str, str]
) -> None:
    navigation = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert status(site, path, **headers) == 403
    assert status(site, path, **headers, **navigation) == 403


@pytest.mark.parametrize("headers", FOREIGN)
def test_another_site_sends_no_form(site: Site, headers: dict[str, str]) -> None:
    assert status(site, "/logout", "POST", **headers) == 403


def test_another_site_may_link_to_a_page_but_not_embed_it(site: Site) -> None:
    foreign = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert status(site, "/topics", **foreign, Sec_Fetch_Dest="document") == 200
    assert status(site, "/topics", **foreign, Sec_Fetch_Dest="iframe") == 403
    no_cors = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
    assert status(site, "/topics", **no_cors, Sec_Fetch_Dest="image") == 403
    own = {"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors"}
    assert status(site, "/topics", **own) == 200


@pytest.mark.parametrize(
    "path", ["//other.test", "//other.test/x", "///other.test", "/%5Cother.test", "/%09/other.test"]
)
def test_the_error_page_links_to_this_console_only(site: Site, path: str) -> None:
    page = site.get(path)
    assert page.status == 404
    for link in page.soup.select("a[href]"):
        target = str(link["href"])
        assert target == "#main" or target.startswith("/"), target
        assert target[1:2] not in ("/", "\\", "\t"), target

"""A visitor of a console: gets pages as a browser without scripts does."""

from __future__ import annotations

import http.cookiejar
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import NamedTuple
from urllib.parse import urlencode

from bs4 import BeautifulSoup

from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.table_place import TablePlace
from wirekafka.console.sampler import Sampler
from wirekafka.console.service import console_server
from wirekafka.console.settings import ConsoleSettings, Prices


class Shown(NamedTuple):
    """A response of the console."""

    status: int
    headers: Message
    text: str
    url: str

    @property
    def soup(self) -> BeautifulSoup:
        return BeautifulSoup(self.text, "html.parser")

    def rows(self, selector: str = "main") -> list[list[str]]:
        """The cells of the table rows within an element."""
        return [
            [" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")]
            for row in self.soup.select(f"{selector} tbody tr")
        ]

    def words(self, selector: str = "main") -> str:
        """The text of an element."""
        found = self.soup.select_one(selector)
        assert found is not None, f"no {selector} in {self.text}"
        return " ".join(found.get_text(" ").split())


class Site:
    """One visitor, who keeps cookies and follows redirects."""

    def __init__(self, address: Address) -> None:
        self._start(f"http://{address}")

    def _start(self, base: str) -> None:
        self.base = base
        self.cookies = http.cookiejar.CookieJar()
        processor = urllib.request.HTTPCookieProcessor(self.cookies)
        self._opener = urllib.request.build_opener(processor)

    def get(self, path: str, **query: object) -> Shown:
        """Get a page."""
        return self._open(path + (f"?{urlencode(query)}" if query else ""), None, {})

    def get_with(self, path: str, headers: dict[str, str]) -> Shown:
        """Get a page by a request with further headers."""
        return self._open(path, None, headers)

    def post(self, path: str, **fields: object) -> Shown:
        """Submit a form with the session's token."""
        return self.submit(path, {**fields, "token": self.token()})

    def another(self) -> Site:
        """Another visitor of the same console."""
        other = Site.__new__(Site)
        other._start(self.base)
        return other

    def log_in(self, name: str, password: str, path: str = "/login") -> Shown:
        """Log in by the form at `path`."""
        fields = {"name": name, "password": password, "token": self.token("/login")}
        return self.submit(path, fields)

    def cookie(self) -> str:
        """The name of the session."""
        [cookie] = self.cookies
        assert cookie.value is not None
        return cookie.value

    def set_cookie(self, value: str) -> None:
        """Use the session of this name."""
        [cookie] = list(self.cookies) or [None]
        if cookie is None:
            self.get("/")
            [cookie] = self.cookies
        cookie.value = value
        self.cookies.set_cookie(cookie)

    def token(self, path: str = "/") -> str:
        """The token of this visitor's session."""
        found = self.get(path).soup.select_one("meta[name=token]")
        assert found is not None, "no token"
        return str(found["content"])

    def submit(
        self, path: str, fields: dict[str, object], headers: dict[str, str] | None = None
    ) -> Shown:
        """Submit a form as it is given."""
        return self._open(path, urlencode(fields).encode(), headers or {})

    def events(self, path: str, **query: object) -> Iterator[tuple[str, str]]:
        """The live output at a path, until it ends: (kind, HTML)."""
        url = self.base + path + (f"?{urlencode(query)}" if query else "")
        with self._opener.open(url, timeout=30) as stream:
            kind = ""
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def _open(self, path: str, data: bytes | None, headers: dict[str, str]) -> Shown:
        request = urllib.request.Request(self.base + path, data, headers)
        try:
            with self._opener.open(request, timeout=30) as got:
                return Shown(got.status, got.headers, got.read().decode(), got.url)
        except urllib.error.HTTPError as error:
            return Shown(error.code, error.headers, error.read().decode(), error.url)


@contextmanager
def console(
    bootstrap: str,
    *,
    config: ClientConfig | None = None,
    allow_changes: bool = False,
    prices: Prices | None = None,
    schema_registry: str | None = None,
    tables: TablePlace | None = None,
) -> Iterator[Site]:
    """A console of a cluster, and a visitor."""
    settings = ConsoleSettings(
        bootstrap,
        Address("127.0.0.1", 0),
        config,
        allow_changes=allow_changes,
        prices=prices or Prices(),
        schema_registry=schema_registry,
        tables=tables,
    )
    server = console_server(settings, Sampler)
    server.start()
    try:
        yield Site(server.address)
    finally:
        server.stop()

"""The HTTP server of a console."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing

from starlette.types import ASGIApp

from wirekafka.console import app
from wirekafka.console.access import OpenSource, SessionAccounts
from wirekafka.console.settings import ConsoleSettings
from wirekafka.web.web_server import Service, WebServer


def console_server(settings: ConsoleSettings, open_source: OpenSource) -> WebServer:
    """A console that listens at its address and serves once it is started. Raises OSError."""

    @asynccontextmanager
    async def application() -> AsyncIterator[ASGIApp]:
        with closing(SessionAccounts(settings, open_source)) as accounts:
            yield app.create(settings, accounts)

    return WebServer(settings.address, Service(name="the console", application=application))


def clusters_server(clusters: Sequence[ConsoleSettings], open_source: OpenSource) -> WebServer:
    """A console of several clusters at the address of the first. Raises OSError."""

    @asynccontextmanager
    async def application() -> AsyncIterator[ASGIApp]:
        with ExitStack() as stack:
            opened = [
                (each, stack.enter_context(closing(SessionAccounts(each, open_source))))
                for each in clusters
            ]
            yield app.create_several(opened)

    return WebServer(clusters[0].address, Service(name="the console", application=application))

"""The HTTP server of a console."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from wirekafka.console import app
from wirekafka.console.access import OpenSource, SessionAccounts
from wirekafka.console.settings import ConsoleSettings
from wirekafka.web.web_server import Service, WebServer


def console_server(settings: ConsoleSettings, open_source: OpenSource) -> WebServer:
    """A console that listens at its address and serves once it is started. Raises OSError."""

    @asynccontextmanager
    async def application() -> AsyncIterator[ASGIApp]:
        accounts = SessionAccounts(settings, open_source)
        try:
            yield app.create(settings, accounts)
        finally:
            accounts.close()

    return WebServer(settings.address, Service(name="the console", application=application))

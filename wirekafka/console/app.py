"""The console as an ASGI application: its routes, its files, and headers of every response."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from wirekafka.config.endpoints.web_hosts import is_served
from wirekafka.console.access import SessionAccounts
from wirekafka.console.foreign import is_foreign
from wirekafka.console.pages import (
    acls,
    brokers,
    configs,
    groups,
    overview,
    queries,
    quotas,
    topics,
    transaction_pages,
    users,
    wire_pages,
)
from wirekafka.console.pages.page import PageError, Pages
from wirekafka.console.render import Renderer
from wirekafka.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from wirekafka.console.table_reads import TableReads

SECTIONS: Sequence[ModuleType] = (
    overview,
    topics,
    groups,
    queries,
    transaction_pages,
    configs,
    acls,
    users,
    quotas,
    brokers,
    wire_pages,
)
"""The modules of the pages, in the order of the navigation.

Each has `ENTRIES`, and `LINK`: (title, path, key pressed after g).
"""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STATIC = Path(__file__).parent / "static"


def create(settings: ConsoleSettings, accounts: SessionAccounts) -> Starlette:
    """The application; `accounts` are closed by who has opened them."""
    return _guarded(_pages(settings, accounts), [settings])


def create_several(clusters: Sequence[tuple[ConsoleSettings, SessionAccounts]]) -> Starlette:
    """One application of several clusters, each below its own path; `/` leads to the first."""
    (first, _), *_ = clusters

    def begin(request: Request) -> Response:
        return RedirectResponse(f"{first.root}/", 303)

    mounts = [Mount(settings.root, _pages(settings, accounts)) for settings, accounts in clusters]
    application = Starlette(routes=[Route("/", begin), *mounts])
    return _guarded(application, [settings for settings, _ in clusters])


def _guarded(application: Starlette, consoles: Sequence[ConsoleSettings]) -> Starlette:
    files = tuple(f"{settings.root}/static/" for settings in consoles)
    application.add_middleware(_Guard, hosts=_hosts(consoles[0]), files=files)
    return application


def _pages(settings: ConsoleSettings, accounts: SessionAccounts) -> Starlette:
    sections = sections_of(settings)
    links = [module.LINK for module in sections]
    renderer = Renderer(links, can_change=settings.allow_changes, root=settings.root)
    renderer.warm_up()
    pages = Pages(settings, accounts, renderer, _tables_of(settings))
    routes = [pages.route(entry) for module in sections for entry in module.ENTRIES]
    return Starlette(
        routes=[
            *routes,
            *pages.login_routes(),
            Mount("/static", StaticFiles(directory=_STATIC), name="static"),
        ],
        exception_handlers={HTTPException: _not_found(pages)},
    )


def sections_of(settings: ConsoleSettings) -> Sequence[ModuleType]:
    """The modules of the pages that a console has."""
    sections = list(SECTIONS)
    if settings.mirrors:
        from wirekafka.console.pages import mirrors

        sections.insert(3, mirrors)
    if settings.tables is not None:
        from wirekafka.console.pages import topic_tables

        sections.insert(2, topic_tables)
    if settings.schema_registry is not None:
        from wirekafka.console.pages import schema_changes

        sections.insert(2, schema_changes)
    return sections


def _tables_of(settings: ConsoleSettings) -> TableReads | None:
    if settings.tables is None:
        return None
    from wirekafka.console.table_reads import TableReads

    return TableReads(settings.tables)


def _not_found(pages: Pages) -> Any:
    def show(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reasons = {404: "There is no such page.", 405: "This page takes no such request."}
        reason = reasons.get(error.status_code, error.detail)
        return pages.failure(request, PageError(error.status_code, reason))

    return show


def _hosts(settings: ConsoleSettings) -> frozenset[str]:
    return frozenset(name.lower() for name in (settings.address.host, *settings.hosts))


class _Guard:
    """Refuses requests for other hosts, as after a DNS rebinding; adds headers to responses."""

    def __init__(self, app: Any, hosts: frozenset[str], files: tuple[str, ...]) -> None:
        """`files` are the starts of paths whose responses may be kept."""
        self._app, self._hosts, self._files = app, hosts, files

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith(self._files):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        headers = Headers(scope=scope)
        host = headers.get("host")
        if not is_served(host, self._hosts):
            text = f"This console does not serve the host {host!r}; see --allow-host.\n"
            await PlainTextResponse(text, 421)(scope, receive, guarded)
        elif is_foreign(headers, host) and not _is_link(scope, headers):
            text = "Other sites may link to this console, but not request anything else of it.\n"
            await PlainTextResponse(text, 403)(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)


def _is_link(scope: Any, headers: Headers) -> bool:
    """Whether a visitor has followed a link, or would say so."""
    return (
        scope["method"] == "GET"
        and "origin" not in headers
        and headers.get("sec-fetch-mode", "navigate") == "navigate"
        and headers.get("sec-fetch-dest", "document") == "document"
    )

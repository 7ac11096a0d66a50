"""The routes of the console: each runs a plain function in a thread, for one visitor."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from wirekafka.client.client import Client, CliError, ConnectionFailure, LoginRefused
from wirekafka.config.option import ConfigError
from wirekafka.console.access import SessionAccounts, UserAccount
from wirekafka.console.foreign import is_foreign
from wirekafka.console.refused_form import RefusedForm
from wirekafka.console.render import Renderer
from wirekafka.console.settings import ConsoleSettings, Prices
from wirekafka.console.source import Source
from wirekafka.errors import KafkaError

if TYPE_CHECKING:
    from wirekafka.client.schema_registry import SchemaRegistry
    from wirekafka.console.table_reads import TableReads

logger = logging.getLogger(__name__)

_MOST_FORM_BYTES = 1 << 20
_MOST_FIELDS = 1_000
_MOST_DIGITS = 20
LARGEST_INT64 = 2**63 - 1
"""The greatest offset, and the greatest id of a producer."""
_REFRESH = "x-refresh"
"""The header of requests that a page makes by itself, to refresh its figures."""
AT_ONCE = "plain"
"""The parameter by which a page works for seconds before it is shown, without scripts."""
_REFUSED_LOGIN_S = 1.0
"""The time until a refused login is answered."""
_READ_ONLY = "This console is read-only: it was started without --allow-changes."


class PageError(Exception):
    """A failure that is shown as a page, with an HTTP status and a sentence for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Visit:
    """One request of a visitor: its parameters, and the means to answer."""

    path: Mapping[str, str]
    """The parameters of the route's path."""
    query: Mapping[str, str]
    form: Mapping[str, str]
    client: Client
    source: Source
    user: str | None
    allows_changes: bool
    prices: Prices
    registry: SchemaRegistry | None = None
    """The schema registry with the rights of the visitor; None if the console has none."""
    tables: TableReads | None = None
    """The tables of topics; None if the console has none. They have no rights of visitors."""

    def number(self, name: str, default: int) -> int:
        """A whole number of the query. Raises PageError for anything else."""
        text = self.query.get(name, "").strip()
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise PageError(400, f"{name} must be a whole number, not {text!r}") from None


@dataclass(frozen=True, slots=True)
class PageView:
    """A page: a template and its values."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


class Redirect(NamedTuple):
    """Another page of the console to go to."""

    path: str


class Download(NamedTuple):
    """Bytes for a file on the visitor's machine; browsers do not interpret them."""

    name: str
    data: bytes


class Event(NamedTuple):
    """A piece of live output. `kind` is `row` (appended), `status` (replaced) or `done`."""

    kind: str
    html: str


Answer: TypeAlias = PageView | Redirect | Download
Handler: TypeAlias = Callable[[Visit], Answer]
LiveHandler: TypeAlias = Callable[[Visit, Renderer], Iterator[Event | None]]


class Page(NamedTuple):
    """A page to read."""

    path: str
    handler: Handler
    again: Handler | None = None
    """Shows the page with the form whose parameters were refused; None: the reason alone is shown.
    """


class Change(NamedTuple):
    """A form's target, which changes something: refused unless changes are allowed."""

    path: str
    handler: Handler
    again: Handler | None = None
    """Shows the page with the form, if the change was refused; None: the reason alone is shown."""


class Live(NamedTuple):
    """Events that a page receives while it is open (`static/live.js`).

    The handler yields an event at least every second, or None: only then is it noticed that the
    visitor has left, and the handler closed.
    """

    path: str
    handler: LiveHandler


Entry: TypeAlias = Page | Change | Live


def without_query(show: Handler) -> Handler:
    """A page without its parameters, which were refused; the form still has their texts."""
    return lambda visit: show(replace(visit, query={}))


@contextmanager
def slot(slots: BoundedSemaphore, refusal: str) -> Iterator[None]:
    """Hold one of a few slots. Raises PageError with the status 503 if there is none left."""
    if not slots.acquire(blocking=False):
        raise PageError(503, refusal)
    try:
        yield
    finally:
        slots.release()


def whole_number(text: str, most: int) -> int | None:
    """The number from 0 to `most` that a text of digits is; None for other texts."""
    if not (text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS):
        return None
    number = int(text)
    return number if number <= most else None


class Pages:
    """Serves entries: finds the visitor's account, and shows failures as pages."""

    def __init__(
        self,
        settings: ConsoleSettings,
        accounts: SessionAccounts,
        renderer: Renderer,
        tables: TableReads | None = None,
    ) -> None:
        self._settings, self._accounts, self._renderer = settings, accounts, renderer
        self._tables = tables

    def route(self, entry: Entry) -> Route:
        """The route of an entry."""
        match entry:
            case Page():
                return Route(entry.path, self._endpoint(entry), methods=["GET"])
            case Change():
                return Route(entry.path, self._change(entry), methods=["POST"])
            case Live():
                return Route(entry.path, self._live(entry.handler), methods=["GET"])

    def login_routes(self) -> list[Route]:
        """The pages to log in and out."""

        async def log_in(request: Request) -> Response:
            began_s = time.monotonic()
            form = await self._form(request) if request.method == "POST" else None
            response = await run_in_threadpool(self._log_in, request, form)
            if response.status_code == 401:
                # How long the brokers took says which names they know, and by which mechanism.
                await asyncio.sleep(began_s + _REFUSED_LOGIN_S - time.monotonic())
            return response

        async def log_out(request: Request) -> Response:
            await self._form(request)
            session = self._session(request)
            await run_in_threadpool(self._accounts.log_out, session)
            response = self._redirected("/login")
            response.delete_cookie(self._settings.cookie, self._settings.root or "/")
            return response

        return [
            Route("/login", self._guarded(log_in), methods=["GET", "POST"]),
            Route("/logout", self._guarded(log_out), methods=["POST"]),
        ]

    def failure(self, request: Request, error: Exception) -> Response:
        """The page that shows a failure."""
        status, message = _described(error)
        if status == 500:
            logger.exception("A page of the console failed: %s", request.url.path, exc_info=error)
        view = PageView(
            "error.html", {"title": "Error", "status": status, "message": message}, status
        )
        session = self._session(request)
        return self._shown(request, view, self._accounts.of(session) if session else None)

    def _guarded(self, endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def guarded(request: Request) -> Response:
            try:
                response: Response = await endpoint(request)
            except Exception as error:
                return await run_in_threadpool(self.failure, request, error)
            return response

        return guarded

    def _endpoint(self, entry: Page) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            if request.query_params.get(AT_ONCE):
                _require_own(request)
            return await run_in_threadpool(self._serve, request, entry, {})

        return self._guarded(show)

    def _change(self, entry: Change) -> Callable[[Request], Any]:
        async def change(request: Request) -> Response:
            form = await self._form(request)
            if not self._settings.allow_changes:
                raise PageError(403, _READ_ONLY)
            return await run_in_threadpool(self._serve, request, entry, form)

        return self._guarded(change)

    def _live(self, handler: LiveHandler) -> Callable[[Request], Any]:
        async def stream(request: Request) -> Response:
            _require_own(request)
            account = await run_in_threadpool(self._account, request)
            if account is None:
                raise PageError(401, "The session has ended: log in again.")
            events = self._events(request, handler, account)
            return StreamingResponse(events, media_type="text/event-stream")

        return self._guarded(stream)

    async def _events(self, request: Request, handler: LiveHandler, account: UserAccount) -> Any:
        produced = self._produced(request, handler, account)
        try:
            while True:
                text = await run_in_threadpool(next, produced, None)
                if text is None or await request.is_disconnected():
                    return
                if self._accounts.of_open_page(self._session(request)) is not account:
                    message = self._renderer.escape("The session has ended: log in again.")
                    yield _encoded(Event("failed", message)) + _encoded(Event("done", ""))
                    return
                yield text
        finally:
            with suppress(ValueError):  # A stop cuts it off while a thread waits for its next part.
                produced.close()

    def _produced(
        self, request: Request, handler: LiveHandler, account: UserAccount
    ) -> Generator[str]:
        try:
            with account.pool.client() as client:
                visit = self._visit(request, account, client, {})
                for event in handler(visit, self._renderer):
                    yield ": still here\n\n" if event is None else _encoded(event)
        except GeneratorExit:
            raise
        except Exception as error:
            status, message = _described(error)
            if status == 500:
                logger.exception("Live output of the console failed: %s", request.url.path)
            yield _encoded(Event("failed", self._renderer.escape(message)))
        yield _encoded(Event("done", ""))

    def _serve(self, request: Request, entry: Page | Change, form: Mapping[str, str]) -> Response:
        began_s = time.perf_counter()
        account = self._account(request)
        if account is None:
            here = self._path(request) + (f"?{request.url.query}" if request.url.query else "")
            return self._redirected(f"/login?next={quote(here, safe='')}")
        answer = self._answer(request, entry, account, form)
        if isinstance(answer, Redirect):
            return self._redirected(answer.path)
        if isinstance(answer, Download):
            disposition = f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}"
            headers = {"Content-Disposition": disposition}
            return Response(answer.data, 200, headers, "application/octet-stream")
        response = self._shown(request, answer, account)
        took_ms = (time.perf_counter() - began_s) * 1000
        response.headers["Server-Timing"] = f"page;dur={took_ms:.1f}"
        return response

    def _answer(
        self, request: Request, entry: Page | Change, account: UserAccount, form: Mapping[str, str]
    ) -> Answer:
        """The answer of an entry, or the page of its form with the reason of a refusal."""
        try:
            with account.pool.client() as client:
                return entry.handler(self._visit(request, account, client, form))
        except (PageError, CliError, ConfigError, KafkaError) as error:
            shown = self._refused(request, entry, account, form, error)
            if shown is None:
                raise
            return shown

    def _refused(
        self,
        request: Request,
        entry: Page | Change,
        account: UserAccount,
        form: Mapping[str, str],
        error: Exception,
    ) -> PageView | None:
        """The page of a refused form; None if there is none, or if it cannot be shown now."""
        if entry.again is None:
            return None
        try:
            with account.pool.client() as client:
                view = entry.again(self._visit(request, account, client, form))
        except (PageError, CliError, ConfigError, KafkaError):
            return None  # Such as a topic that is gone: why the form was refused says it.
        assert isinstance(view, PageView)
        status, message = _described(error)
        if not isinstance(error, PageError | ConnectionFailure):
            status = 400
        fields = form if isinstance(entry, Change) else request.query_params
        refusal = RefusedForm(entry.path, fields, message)
        return replace(view, values={**view.values, "refusal": refusal}, status=status)

    def _account(self, request: Request) -> UserAccount | None:
        session = self._session(request)
        if _REFRESH in request.headers:
            return self._accounts.of_open_page(session)
        return self._accounts.of(session)

    def _visit(
        self, request: Request, account: UserAccount, client: Client, form: Mapping[str, str]
    ) -> Visit:
        return Visit(
            path=request.path_params,
            query=request.query_params,
            form=form,
            client=client,
            source=account.source,
            user=account.user,
            allows_changes=self._settings.allow_changes,
            prices=self._settings.prices,
            registry=account.registry,
            tables=self._tables,
        )

    def _shown(self, request: Request, view: PageView, account: UserAccount | None) -> Response:
        session = self._session(request) or secrets.token_urlsafe(32)
        frame = {
            # With two slashes at its start, a link to it would lead to another host.
            "here": "/" + quote(self._path(request).lstrip("/")),
            "query": request.query_params,
            "user": None if account is None else account.user,
            "is_inside": account is not None,
            "token": self._accounts.token(session),
            "allows_changes": self._settings.allow_changes,
            "refusal": RefusedForm(),
            "cluster_name": self._settings.cluster,
            "cluster_names": self._settings.clusters,
        }
        response = HTMLResponse(self._renderer.page(view.template, {**frame, **view.values}))
        response.status_code = view.status
        if not self._session(request):
            self._set_cookie(request, response, session)
        return response

    async def _form(self, request: Request) -> dict[str, str]:
        """The fields of a submitted form. Raises PageError unless one of our pages sent it."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _MOST_FORM_BYTES:
                raise PageError(413, "the form is larger than 1 MiB")
        form = await run_in_threadpool(_fields, body)
        session = self._session(request)
        expected = self._accounts.token(session)
        is_other = is_foreign(request.headers, request.headers.get("host"))
        token = form.pop("token", "").encode()
        if is_other or not session or not hmac.compare_digest(token, expected.encode()):
            raise PageError(403, "The form was not sent by a page of this session: reload it.")
        return form

    def _log_in(self, request: Request, form: Mapping[str, str] | None) -> Response:
        following = request.query_params.get("next", "/")
        if not following.startswith("/") or following[1:2] in ("/", "\\"):
            following = "/"
        if not self._settings.asks_for_login:
            return self._redirected("/")
        values = {"title": "Log in", "name": "", "problem": None}
        if form is None:
            return self._shown(request, PageView("login.html", values), None)
        values["name"] = form.get("name", "")
        try:
            session = self._accounts.log_in(values["name"] or "", form.get("password", ""))
        except (CliError, ConfigError) as error:
            values["problem"] = str(error)
            status = 401 if isinstance(error, LoginRefused) else 502
            return self._shown(request, PageView("login.html", values, status), None)
        self._accounts.log_out(self._session(request))
        response = self._redirected(following)
        self._set_cookie(request, response, session)
        return response

    def _session(self, request: Request) -> str:
        """The name of the visitor's session; empty without one."""
        return request.cookies.get(self._settings.cookie, "")

    def _path(self, request: Request) -> str:
        """The path of a request within the pages of the cluster."""
        path: str = request.scope["path"]
        return path.removeprefix(self._settings.root)

    def _redirected(self, path: str) -> RedirectResponse:
        """A redirect to a path within the pages of the cluster."""
        return RedirectResponse(self._settings.root + path, 303)

    def _set_cookie(self, request: Request, response: Response, session: str) -> None:
        response.set_cookie(
            self._settings.cookie,
            session,
            path=self._settings.root or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )


def _fields(body: bytearray) -> dict[str, str]:
    """The fields of a form. Raises PageError."""
    text = body.decode(errors="replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise PageError(413, f"the form has more than {_MOST_FIELDS} fields") from None


def _require_own(request: Request) -> None:
    """Raise PageError if another site has caused a request that starts work."""
    if is_foreign(request.headers, request.headers.get("host")):
        raise PageError(403, "Another site has asked for this: begin at a page of the console.")


def _described(error: Exception) -> tuple[int, str]:
    """The HTTP status of a failure, and the message for the visitor."""
    match error:
        case PageError():
            return error.status, str(error)
        case CliError() | ConfigError() | KafkaError():
            return 502, str(error)
        case OSError():
            return 502, str(error)
        case _:
            return 500, "The console failed to make this page; its log has the details."


def _encoded(event: Event) -> str:
    return f"event: {event.kind}\ndata: {json.dumps(event.html)}\n\n"

"""The HTTP API of a schema registry, as Confluent's: an ASGI application over a `Writer`."""

from __future__ import annotations

import asyncio
import logging

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from wirekafka.registry.access import RegistryPermissions
from wirekafka.registry.errors import RegistryError
from wirekafka.registry.http import answers, bodies, negotiation, routing
from wirekafka.registry.http.call import Registry, RegistryCall
from wirekafka.registry.http.routes import ROUTES
from wirekafka.registry.parsing import SchemaParser
from wirekafka.registry.writer import Writer

_log = logging.getLogger(__name__)

_WITH_BODY = ("POST", "PUT")


def create(
    writer: Writer,
    access: RegistryPermissions | None = None,
    *,
    cluster_id: str = "",
    group_id: str = "",
) -> Starlette:
    """The application. `cluster_id` and `group_id` name the registry in `/v1/metadata/id`."""
    registry = Registry(writer, SchemaParser(), access, asyncio.Semaphore(4), cluster_id, group_id)
    return Starlette(routes=[Mount("/", app=_Api(registry))])


class _Api:
    """Answers each request, or says why not."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        content_type = negotiation.V1
        try:
            inner = routing.without_context(routing.segments_of(routing.raw_path(request.scope)))
            if request.method == "OPTIONS":
                allowed = ",".join(routing.allowed_methods(ROUTES, inner.segments))
                return Response(headers={"Allow": allowed})
            found = routing.matched(ROUTES, request.method, inner.segments)
            content_type = negotiation.answer_type(request.headers.get("accept"))
            body = b""
            if request.method in _WITH_BODY:
                negotiation.require_json(request.headers.get("content-type"))
                body = await bodies.read(request)
            call = RegistryCall(self._registry, request, found.variables, inner.context, body)
            answer = await found.route.endpoint(call)
            if isinstance(answer, Response):
                return answer
            return answers.response(answer, content_type)
        except RegistryError as error:
            return answers.refusal(error, content_type)
        except ClientDisconnect:
            raise
        except Exception:
            _log.exception("A request of the schema registry failed: %s", request.url.path)
            failure = RegistryError(500, 50001, "Error in the backend data store")
            return answers.refusal(failure, content_type)

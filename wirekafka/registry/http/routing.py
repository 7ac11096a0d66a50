"""Paths of the API: their segments may contain encoded slashes, and may begin with a context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from starlette.types import Scope

from wirekafka.registry import errors
from wirekafka.registry.subjects import DEFAULT_CONTEXT, qualified

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class RegistryRoute(Generic[E]):
    """A method, a path whose segments in braces are variables, and what answers it."""

    method: str
    path: str
    endpoint: E

    def match(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """The variables of a path; None if it is another."""
        pattern = self.path.strip("/").split("/")
        if len(pattern) != len(segments):
            return None
        found = {}
        for expected, segment in zip(pattern, segments, strict=True):
            if expected.startswith("{"):
                found[expected[1:-1]] = segment
            elif expected != segment:
                return None
        return found


@dataclass(frozen=True, slots=True)
class Matched(Generic[E]):
    """The route of a request, and the variables of its path."""

    route: RegistryRoute[E]
    variables: Mapping[str, str]


def raw_path(scope: Scope) -> bytes:
    """The path as it was sent: subjects may have encoded slashes."""
    raw: bytes | None = scope.get("raw_path")
    return raw or str(scope["path"]).encode()


def segments_of(raw_path: bytes) -> Sequence[str]:
    """The decoded segments of a path as it was sent."""
    path = raw_path.split(b"?")[0].decode("latin-1").strip("/")
    return [unquote(each) for each in path.split("/")]


def matched(routes: Sequence[RegistryRoute[E]], method: str, segments: Sequence[str]) -> Matched[E]:
    """The route of a request. Raises RegistryError 404, or 405 for another method's."""
    wanted = "GET" if method == "HEAD" else method
    methods = set()
    for route in routes:
        variables = route.match(segments)
        if variables is None:
            continue
        if route.method == wanted:
            return Matched(route, variables)
        methods.add(route.method)
    if methods:
        raise errors.of_http(405, "Method Not Allowed")
    raise errors.of_http(404, "Not Found")


def allowed_methods(routes: Sequence[RegistryRoute[E]], segments: Sequence[str]) -> Sequence[str]:
    """The methods of a path."""
    methods = {route.method for route in routes if route.match(segments) is not None}
    return sorted({*methods, "OPTIONS", *({"HEAD"} if "GET" in methods else ())})


@dataclass(frozen=True, slots=True)
class InContext:
    """A path without the context in front of it (`/contexts/.context/…`), and the context."""

    segments: Sequence[str]
    context: str | None = None


def without_context(segments: Sequence[str]) -> InContext:
    """Move the context of a path into its subject: `/contexts/.c/subjects/s` is `:.c:s` there."""
    if len(segments) < 3 or segments[0] != "contexts":
        return InContext(segments)
    context, inner = segments[1], list(segments[2:])
    if context == ":.:" or not context.startswith((".", ":.")):
        context = DEFAULT_CONTEXT
    if context.startswith(":"):
        context = qualified(context).context
    place = 2 if inner[0] == "compatibility" else 1
    if inner[0] in ("subjects", "compatibility", "config", "mode"):
        if len(inner) > place:
            inner[place] = in_context(context, inner[place])
        elif inner[0] in ("config", "mode") and context != DEFAULT_CONTEXT:
            inner.append(f":{context}:")
    return InContext(inner, context)


def in_context(context: str, subject: str) -> str:
    """A subject in a context, unless it names one itself."""
    if subject.startswith(":.") or context == DEFAULT_CONTEXT:
        return subject
    return f":{context}:{subject}"

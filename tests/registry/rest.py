"""A schema registry in memory, and its requests in one line each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.testclient import TestClient

from wirekafka.registry.app import create
from wirekafka.registry.writer import MemoryWriter

V1 = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    content_type: str = V1


def refused(status: int, code: int, message: str) -> Answer:
    return Answer(status, {"error_code": code, "message": message})


def record(*fields: str, name: str = "R") -> str:
    """The text of an Avro record with fields `name:type`, `name:type=default in JSON`."""
    parts = []
    for each in fields:
        field, _, rest = each.partition(":")
        type_, _, default = rest.partition("=")
        parts.append(
            {"name": field, "type": type_, **({"default": json.loads(default)} if default else {})}
        )
    value = {"type": "record", "name": name, "fields": parts}
    return json.dumps(value, separators=(",", ":"))


class Rest:
    """Sends requests to a registry in the process."""

    def __init__(self, writer: MemoryWriter | None = None, **options: Any) -> None:
        self.writer = writer or MemoryWriter()
        self.client = TestClient(create(self.writer, **options), raise_server_exceptions=True)

    def __call__(self, line: str, body: Any = None, **headers: str) -> Answer:
        """Send a request, for instance `GET /subjects`."""
        method, path = line.split(" ", 1)
        content = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.client.request(
            method, path, content=content, headers={"Content-Type": V1, **named}
        )
        text = answer.text
        content_type = answer.headers.get("content-type", "")
        try:
            value = json.loads(text) if text else None
        except ValueError:
            value = text
        return Answer(answer.status_code, value, content_type)

    @contextmanager
    def connected(self) -> Iterator["Rest"]:
        """One loop for many requests."""
        with self.client:
            yield self

    def register(self, subject: str, text: str, **more: Any) -> int:
        """Register a schema; returns its id."""
        answer = self(f"POST /subjects/{subject}/versions", {"schema": text, **more})
        assert answer.status == 200, answer
        return int(answer.body["id"])

    def written(self) -> list[tuple[str, str | None]]:
        """The records of the topic."""
        return [
            (each.key.decode(), None if each.value is None else each.value.decode())
            for each in self.writer.entries
        ]

"""Many requests at once: ids are given once, and slow schemas keep nobody else waiting."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from tests.registry.rest import record
from wirekafka.registry.app import create
from wirekafka.registry.writer import MemoryWriter
from wirekafka.schemas import formats
from wirekafka.schemas.schema import Dependency, Format, ParsedSchema


def client_of(writer: MemoryWriter) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(create(writer)), base_url="http://registry"
    )


def test_many_writers_give_each_schema_one_id() -> None:
    asyncio.run(_many_writers())


async def _many_writers() -> None:
    writer = MemoryWriter()
    async with client_of(writer) as client:

        async def register(subject: str, name: str) -> tuple[str, int]:
            body = {"schema": record(name=name)}
            answer = await client.post(f"/subjects/{subject}/versions", json=body)
            assert answer.status_code == 200, answer.text
            return name, answer.json()["id"]

        names = [f"R{number % 25}" for number in range(100)]
        writes = [register(f"s{number}", name) for number, name in enumerate(names)]
        given = set(await asyncio.gather(*writes))
    assert sorted(id for _, id in given) == list(range(1, 26))


def test_a_slow_schema_keeps_no_reader_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_slow_schemas(monkeypatch))


async def _slow_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def slow(format: Format, text: str, needed: Sequence[Dependency] = ()) -> ParsedSchema:
        released.wait()
        return parse(format, text, needed)

    parse = formats.parse
    monkeypatch.setattr(formats, "parse", slow)
    body: dict[str, Any] = {"schema": record(name="A")}
    async with client_of(MemoryWriter()) as client:
        path = "/compatibility/subjects/s/versions"
        checks = [asyncio.create_task(client.post(path, json=body)) for _ in range(20)]
        write = asyncio.create_task(client.post("/subjects/s/versions", json=body))
        try:
            assert (await client.get("/subjects")).json() == []
        finally:
            released.set()
        assert {(await each).status_code for each in checks} == {200}
        assert (await write).json()["id"] == 1

"""Faults of a registry under test: which requests they act on, and how."""

from __future__ import annotations

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from wirekafka.registry.faults import (
    SPARED_HEADER,
    Refusal,
    RegistryFault,
    RegistryFaults,
    RequestPattern,
)


@pytest.fixture
def faults() -> RegistryFaults:
    return RegistryFaults("key")


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def client(faults: RegistryFaults, seen: list[str]) -> TestClient:
    async def answer(request: Request) -> JSONResponse:
        seen.append(request.url.path)
        return JSONResponse(["answer"])

    routes = [Route("/{path:path}", answer, methods=["GET", "POST", "PUT", "DELETE"])]
    return TestClient(faults.around(Starlette(routes=routes)))


def refusing(pattern: str = "/**", times: int | None = None, **words: object) -> RegistryFault:
    refusal = Refusal(**{"status": 500, "code": 50001, "message": "no", "applied": False, **words})
    return RegistryFault(RequestPattern.parse(pattern), times=times, refusal=refusal)


@pytest.mark.parametrize(
    ("pattern", "request_line", "matches"),
    [
        ("/**", "GET /", True),
        ("/**", "PUT /config/a", True),
        ("POST /subjects/*/versions", "POST /subjects/a%2Fb-value/versions", True),
        ("POST /subjects/*/versions", "GET /subjects/a/versions", False),
        ("POST /subjects/*/versions", "POST /subjects/a/versions/1", False),
        ("/subjects/orders-*/**", "GET /subjects/orders-value/versions/1", True),
        ("/subjects/orders-*/**", "GET /subjects/other-value/versions/1", False),
        ("GET /schemas/ids/**", "GET /schemas/ids", True),
        ("GET /schemas/ids/**", "GET /schemas", False),
        ("/subjects", "GET /subjects?deleted=true", True),
        ("/subjects", "GET /subjects/", True),
    ],
)
def test_patterns_name_methods_and_segments(faults, client, seen, pattern, request_line, matches):
    faults.add(refusing(pattern))
    method, path = request_line.split()
    assert client.request(method, path).status_code == (500 if matches else 200)
    assert len(seen) == (not matches)


@pytest.mark.parametrize("text", ["", "POST", "subjects", "PATCH /subjects", "GET /a /b", "/a b"])
def test_a_text_that_is_no_pattern_is_refused(text):
    with pytest.raises(ValueError, match="is no pattern of requests: write such as 'POST /sub"):
        RequestPattern.parse(text)


def test_a_fault_ends_after_its_times_its_with_or_all_at_once(faults, client):
    with faults.add(refusing(times=2)) as fault:
        found = [client.get("/subjects") for _ in range(3)]
        assert [each.status_code for each in found] == [500, 500, 200]
        assert found[0].json() == {"error_code": 50001, "message": "no"}
        assert found[0].headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        assert fault.hits == 2
    with faults.add(refusing()):
        assert client.get("/subjects").status_code == 500
    assert client.get("/subjects").status_code == 200
    faults.add(refusing())
    faults.clear()
    assert client.get("/subjects").status_code == 200


def test_a_request_may_take_effect_although_it_fails(faults, client, seen):
    with faults.add(refusing(applied=True)):
        assert client.post("/subjects/a/versions").status_code == 500
    assert seen == ["/subjects/a/versions"]


def test_requests_of_the_test_itself_are_spared_and_not_counted(faults, client):
    fault = faults.add(refusing())
    assert client.get("/", headers={SPARED_HEADER: "key"}).status_code == 200
    assert client.get("/", headers={SPARED_HEADER: "wrong"}).status_code == 500
    assert fault.hits == 1


def test_the_test_itself_may_have_an_application_of_its_own(faults):
    def answering(text: str) -> Starlette:
        async def answer(request: Request) -> JSONResponse:
            return JSONResponse(text)

        return Starlette(routes=[Route("/", answer)])

    client = TestClient(faults.around(answering("users"), answering("own")))
    assert client.get("/").json() == "users"
    assert client.get("/", headers={SPARED_HEADER: "key"}).json() == "own"


def test_a_delay_ends_with_its_time_or_with_its_fault(faults):
    async def app(scope: object, receive: object, send: object) -> None:
        served.append(asyncio.get_running_loop().time())

    async def serve() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        start = asyncio.get_running_loop().time()
        await faults.around(app)(scope, None, None)
        assert served[-1] - start >= 0.05
        faults.clear()
        fault = faults.add(RegistryFault(RequestPattern.parse("/**"), times=None, seconds=600))
        waiting = asyncio.create_task(faults.around(app)(scope, None, None))
        while not fault.hits:
            await asyncio.sleep(0)
        fault.remove()
        await waiting

    served: list[float] = []
    faults.add(RegistryFault(RequestPattern.parse("/**"), times=1, seconds=0.05))
    asyncio.run(serve())
    assert len(served) == 2

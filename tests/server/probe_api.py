"""An API for tests: its request chooses whether it echoes, waits, fails or sends no response."""

from __future__ import annotations

import asyncio

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import Api
from wirekafka.codec.message import (
    Int16,
    Int32,
    Records,
    Request,
    Response,
    String,
    Versions,
    field,
)
from wirekafka.errors import Error, KafkaError

KEY = 1000


class ProbeRequest(Request, key=KEY, versions="0-1", flexible="1+"):
    action: String
    text: String
    data: Records | None = field(default=None)


class ProbeResponse(Response, answers=ProbeRequest):
    error_code: Int16
    text: String
    throttle_time_ms: Int32


class Gate:
    """Holds the requests that wait, and records which of them were cancelled."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.unwound = 0

    def open(self) -> None:
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def probe(self, request: ProbeRequest, call: Call) -> ProbeResponse | None:
        match request.action:
            case "wait":
                future = asyncio.get_running_loop().create_future()
                self.waiting.append(future)
                try:
                    await future
                except GeneratorExit:
                    self.unwound += 1
                    raise
            case "wait and look":
                call.needs_buffer = True
                future = asyncio.get_running_loop().create_future()
                self.waiting.append(future)
                await future
                return ProbeResponse(text=bytes(request.data or b"").decode())
            case "amplify":
                return ProbeResponse(text="y" * 30_000)
            case "refuse":
                raise KafkaError(Error.POLICY_VIOLATION)
            case "break":
                raise ZeroDivisionError("a secret of the inside")
            case "silence":
                return None
            case "exceed a quota" | "exceed a quota silently":
                call.throttle_ms = 500
                return ProbeResponse(text="slow") if request.action == "exceed a quota" else None
            case "exceed a quota late":
                await asyncio.sleep(0)
                call.throttle_ms = 500
            case "close":
                call.close()
        return ProbeResponse(text=request.text)

    def api(self) -> Api:
        return Api(ProbeRequest, ProbeResponse, self.probe, Versions(0, 1))

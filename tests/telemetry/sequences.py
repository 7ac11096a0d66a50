"""Sequences of a telemetry client's requests, with the error codes that Apache Kafka answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.metadata.image.image import CLIENT_METRICS
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest

MAX_BYTES = 2_000
"""telemetry.max.bytes of both brokers."""
INTERVAL_MS = 300

SEQUENCES = [
    # "wait" is for longer than the interval.
    ("push, push, ask, push", [0, 89, 89, 89]),
    ("push, push, wait, push", [0, 89, 0]),
    ("push, wait, ask, push, push", [0, 0, 0, 89]),
    ("wait, ask, push, ask, wait, ask", [0, 0, 89, 0]),
    ("push unknown, ask, ask, push", [117, 0, 89, 89]),
    ("push unknown, push, ask, ask", [117, 89, 89, 89]),
    ("push unknown, wait, push, ask", [117, 0, 89]),
    ("push badly, ask, push, wait, ask, push", [76, 0, 89, 0, 0]),
    ("push much, ask, wait, push", [118, 89, 0]),
    ("push garbage, ask, wait, push", [87, 89, 0]),
    ("push last, push, push, wait, push", [0, 42, 89, 0]),
    ("push, push last, push last, push", [0, 0, 42, 42]),
    ("push, reconnect", [0, 0]),
    ("push, configure, push, ask", [0, 117, 0]),
]
_CODEC_UNKNOWN, _GZIP = 9, 1


@dataclass
class TelemetryClient:
    """A client instance that has asked for its subscription; `send` returns the response."""

    send: Callable[[Request], Any]
    wait: Callable[[], None]
    disconnect: Callable[[], None]
    configure: Callable[[], None]
    """Changes the interval of the subscription."""
    instance_id: bytes
    subscription_id: int = 0
    notices_within_s: float = 0
    """How long the broker may take to notice that a connection has ended."""

    def play(self, steps: str) -> list[int]:
        """The error codes of the responses to the steps."""
        assert self.ask() == 0
        return [code for step in steps.split(", ") if (code := self._do(step)) is not None]

    def ask(self) -> int:
        """Ask for the subscription; returns the error code."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id)
        answer = self.send(request)
        if answer.error_code == 0:
            self.subscription_id = answer.subscription_id
        return int(answer.error_code)

    def push(self, metrics: bytes = b"", codec: int = 0, **options: Any) -> int:
        """Push once; returns the error code."""
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id,
            compression_type=codec,
            metrics=metrics,
        )
        for name, value in options.items():
            setattr(request, name, value)
        return int(self.send(request).error_code)

    def _do(self, step: str) -> int | None:
        match step:
            case "ask":
                return self.ask()
            case "push":
                return self.push()
            case "push unknown":
                return self.push(subscription_id=self.subscription_id + 1)
            case "push badly":
                return self.push(b"", _CODEC_UNKNOWN)
            case "push much":
                return self.push(bytes(MAX_BYTES + 1))
            case "push garbage":
                return self.push(b"garbage", _GZIP)
            case "push last":
                return self.push(terminating=True)
            case "reconnect":
                self.disconnect()
                return self._ask_as_another()
            case _:
                getattr(self, step)()
                return None

    def _ask_as_another(self) -> int:
        """Ask until the broker has forgotten this client, or the time for it is over."""
        deadline = time.monotonic() + self.notices_within_s
        while (code := self.ask()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return code


def alter(name: str, values: dict[str, str | None]) -> IncrementalAlterConfigsRequest:
    """A request that sets options of a subscription, and removes those that are None."""
    of = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        of.AlterableConfig(name=key, config_operation=int(value is None), value=value)
        for key, value in values.items()
    ]
    resource = of(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

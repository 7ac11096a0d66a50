"""Clients that push metrics: each has an id of its own and names software by which it is known."""

from __future__ import annotations

import secrets
from typing import Any

from wirekafka.conformance.stage import Stage
from wirekafka.errors import error_name
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.push_telemetry import PushTelemetryRequest

OWN = "telemetry"
"""The connection whose client has named its software."""
_CLIENT_METRICS = 16
_LEAST_INTERVAL_MS = 200
UNKNOWN_CODEC, GZIP = 9, 1


def name_software(stage: Stage) -> str:
    """Name the software of the client by the case, so that a subscription can match it alone."""
    request = ApiVersionsRequest(client_software_name=stage.name(), client_software_version="1")
    stage.do(request, 3, by=OWN)
    return stage.name()


def subscribe(stage: Stage, text: str, **values: str | None) -> str:
    """Make or change a subscription; returns the error."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        kind.AlterableConfig(
            name=key.replace("_", "."), config_operation=int(value is None), value=value
        )
        for key, value in values.items()
    ]
    resource = kind(resource_type=_CLIENT_METRICS, resource_name=stage.name(text), configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (result,) = stage.do(request, 1).responses
    return error_name(result.error_code)


def settle(stage: Stage, software: str) -> Any:
    """Wait until all subscriptions have effect; returns the answer to a new client.

    Subscriptions take effect in their order: the last has the shortest interval of all.
    """
    stage.call(str(_LEAST_INTERVAL_MS), "the interval")
    probe = {"interval_ms": str(_LEAST_INTERVAL_MS), "metrics": "probe"}
    subscribe(stage, "probe", match=f"client_software_name={software}", **probe)

    def answer() -> Any:
        found = stage.do(GetTelemetrySubscriptionsRequest(client_instance_id=fresh_id()), 0, by=OWN)
        return found if found.push_interval_ms == _LEAST_INTERVAL_MS else None

    return stage.until(answer, "the subscriptions")


def fresh_id() -> bytes:
    """The id of a client that no broker has seen."""
    return secrets.token_bytes(16)


class PushingClient:
    """A client with its subscription, and the error codes of what it sends."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.id, self.subscription_id = stage, fresh_id(), 0
        self.codes: list[str] = []

    def play(self, steps: str) -> None:
        """Send requests by their names; what they answer is compared."""
        self.ask()
        for step in steps.split(", "):
            self._send(step)
        self.stage.note(steps, " ".join(self.codes[1:]))

    def ask(self) -> str:
        """Ask for the subscription; returns the error."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.id)
        answer = self.stage.do(request, 0, by=OWN)
        if not answer.error_code:
            self.subscription_id = answer.subscription_id
        return self._seen(answer)

    def push(self, metrics: bytes = b"", codec: int = 0, **options: Any) -> str:
        """Push once; returns the error."""
        request = PushTelemetryRequest(
            client_instance_id=self.id,
            subscription_id=self.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=metrics,
        )
        for name, value in options.items():
            setattr(request, name, value)
        return self._seen(self.stage.do(request, 0, by=OWN))

    def _seen(self, answer: Any) -> str:
        self.codes.append(error_name(answer.error_code))
        return self.codes[-1]

    def _send(self, step: str) -> None:
        match step:
            case "ask":
                self.ask()
            case "push unknown":
                self.push(subscription_id=self.subscription_id + 1)
            case "push badly":
                self.push(codec=UNKNOWN_CODEC)
            case "push much":
                self.push(bytes((1 << 20) + 1))
            case "push garbage":
                self.push(b"garbage", GZIP)
            case "push last":
                self.push(terminating=True)
            case _:
                assert step == "push", step
                self.push()

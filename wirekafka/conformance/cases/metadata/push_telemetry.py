"""PushTelemetry: the metrics of clients, and what is too early, too much or unreadable."""

from __future__ import annotations

from wirekafka.codec.compression import compress
from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.metadata.telemetry_clients import PushingClient
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.push_telemetry import PushTelemetryRequest

BOOK = Book(
    PushTelemetryRequest,
    "metadata",
    ConformanceLevel.ADMIN,
    "KIP-714",
    needs=frozenset({Need.TELEMETRY}),
)
_LARGEST = 1 << 20

# The interval of a client without a subscription is so long that it never ends here. A change of
# any subscription would end it: what depends on it is played alone.
_SEQUENCES = (
    "push",
    "push, push",
    "push, push, ask, push",
    "push unknown, ask, ask, push",
    "push unknown, push, ask, ask",
    "push badly, push",
    "push badly, ask, push",
    "push much, ask",
    "push much, push",
    "push garbage, ask",
    "push garbage, push",
    "push last, push, push",
    "push last, push last",
    "push last, ask",
    "push, push last, push last, push",
    "ask, push",
)

for _steps in _SEQUENCES:

    @BOOK.play(f"a client that has asked: {_steps}", is_alone=True)
    def _sequence(stage: Stage, steps: str = _steps) -> None:
        """Of requests that come too early, only the last push of a client is taken."""
        PushingClient(stage).play(steps)


_IDS = {"no id": bytes(16), "a reserved id": bytes(15) + b"\1"}

for _what, _id in _IDS.items():

    @BOOK.play(f"a push with {_what}")
    def _of_nobody(stage: Stage, id: bytes = _id) -> None:
        """No client has such an id."""
        client = PushingClient(stage)
        client.id = id
        stage.note("error", client.push())


@BOOK.play("a push of a client that has not asked", is_alone=True)
def _unasked(stage: Stage) -> None:
    """The broker makes a subscription for it, whose id it does not know."""
    client = PushingClient(stage)
    stage.note("first", client.push(subscription_id=12345))
    stage.note("then it asks", client.ask())


@BOOK.play("a last push of a client that has not asked")
def _last_unasked(stage: Stage) -> None:
    """A client may end without having pushed."""
    stage.note("error", PushingClient(stage).push(subscription_id=12345, terminating=True))


for _codec in (0, 1, 2, 3, 4, 5, -1):

    @BOOK.play(f"a push with codec {_codec}".replace("-", "minus "))
    def _compressed(stage: Stage, codec: int = _codec) -> None:
        """An empty set of metrics, compressed."""
        client = PushingClient(stage)
        client.ask()
        metrics = compress(codec, b"") if codec in range(1, 5) else b""
        stage.note("error", client.push(metrics, codec))


@BOOK.play("the largest push")
def _largest(stage: Stage) -> None:
    """A push of exactly as many bytes as are allowed is not too large."""
    client = PushingClient(stage)
    client.ask()
    stage.note("is too large", client.push(bytes(_LARGEST)) == "TELEMETRY_TOO_LARGE")

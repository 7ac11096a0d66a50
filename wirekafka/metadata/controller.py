"""The controller: the machine that turns admin requests into metadata records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.metadata.command import Command, ControllerState
from wirekafka.metadata.image import MetadataImage
from wirekafka.replication.machine import NOTHING, Outcome, Ticket


class Controller:
    """A `Machine` whose hard state is the metadata image; each command decides for itself."""

    def __init__(self, config: Callable[[], BrokerConfig], new_id: Callable[[], bytes]):
        self.state = ControllerState(MetadataImage(), config, new_id)

    @property
    def image(self) -> MetadataImage:
        """The metadata up to what was appended, committed or not."""
        return self.state.image

    def decide(self, command: Command, ticket: Ticket, now_ms: int) -> Outcome:
        """Answer any `Command`. Raises `KafkaError`."""
        records, reply = command.decide(self.state, now_ms)
        return Outcome(records, ((ticket, reply),))

    def replay(self, record: Any) -> None:
        """Fold one record into the image."""
        self.state.image.replay(record)

    def deadline(self) -> int | None:
        """Nothing falls due by itself yet: a lone broker's session cannot end."""
        return None

    def tick(self, now_ms: int) -> Outcome:
        """Nothing to do."""
        return NOTHING

    def snapshot(self) -> Iterable[Any]:
        """The image as records."""
        return self.state.image.snapshot()

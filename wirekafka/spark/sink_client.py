"""A sink's connections to the cluster, which wait for brokers that start again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from wirekafka.client.client import RETRY_FOR_S, Client, ConnectionFailure
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.spark.sink_options import SinkOptions

_RETRY_EVERY_S = 0.1

T = TypeVar("T")


def sink_client(options: SinkOptions) -> Client:
    """Connections to the cluster; the caller closes them."""
    return Client(options.bootstrap, options.config, client_id=options.client_id)


def topic_of(client: Client, name: str) -> MetadataResponse.Topic:
    """A topic with leaders, which brokers may create. Raises CliError."""
    return retried(client, lambda: client.topic(name, create=True))


def retried(client: Client, action: Callable[[], T]) -> T:
    """Do what may be done twice, again while no broker answers. Raises ConnectionFailure."""
    deadline = time.monotonic() + RETRY_FOR_S
    while True:
        try:
            return action()
        except ConnectionFailure:
            if time.monotonic() > deadline:
                raise
        client.drop_unusable()
        time.sleep(_RETRY_EVERY_S)

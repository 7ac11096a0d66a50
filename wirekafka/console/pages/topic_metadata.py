"""The metadata of the topic that a page is about."""

from __future__ import annotations

from wirekafka.client.client import check, only
from wirekafka.console.pages.page import PageError, Visit
from wirekafka.errors import Error
from wirekafka.protocol.metadata import MetadataResponse


def described(visit: Visit, *others: str) -> tuple[MetadataResponse.Topic, MetadataResponse]:
    """The metadata of the path's topic, and of others. Raises PageError if there is none."""
    name = visit.path["topic"]
    metadata = visit.client.metadata({name, *others})
    topic = only([each for each in metadata.topics if each.name == name], f"topic {name}")
    if topic.error_code in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION):
        raise PageError(404, f"There is no topic {name}.")
    check(topic.error_code, f"topic {name}")
    return topic, metadata

"""The status of a streams group in heartbeat responses (KIP-1071)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """The codes of StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    """A code and an explanation for people."""

    code: StatusCode
    detail: str


class TopicProblem(Exception):
    """Raised where the topics of a topology do not permit an assignment."""

    def __init__(self, status: Status):
        super().__init__(status.detail)
        self.status = status

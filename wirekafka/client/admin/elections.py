"""Elections of partition leaders (KIP-460)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from wirekafka.client.client import Client, CliError, check
from wirekafka.errors import Error
from wirekafka.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_NAMES_TYPE = 1
"""From this version on, ElectLeaders has a type of election."""


class LeaderChoice(IntEnum):
    """Who becomes leader: the first replica, if in sync, or any live replica, if none is."""

    PREFERRED = 0
    UNCLEAN = 1


class LeaderResult(NamedTuple):
    """The result of one partition."""

    topic: str
    partition: int
    error_code: int
    message: str | None

    @property
    def was_needed(self) -> bool:
        """Whether the partition did not have the leader already."""
        return self.error_code != Error.ELECTION_NOT_NEEDED


def elect_leaders(
    client: Client, choice: LeaderChoice, partitions: Mapping[str, Sequence[int]] | None
) -> list[LeaderResult]:
    """Elect leaders of partitions; None is all partitions, of which brokers return the changed.

    Raises CliError.
    """
    version = client.any().version_of(ElectLeadersRequest)
    if choice is LeaderChoice.UNCLEAN and version < _NAMES_TYPE:
        raise CliError("the broker is too old for unclean elections by command")
    kind = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(
        election_type=choice,
        topic_partitions=None
        if partitions is None
        else [kind(topic=name, partitions=list(some)) for name, some in partitions.items()],
    )
    response = client.send(request, ElectLeadersResponse)
    check(response.error_code, "the election")
    return sorted(
        LeaderResult(topic.topic, each.partition_id, each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    )

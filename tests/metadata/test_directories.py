"""Reports of log directories: what fails is reported again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.manual_clock import ManualClock
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Replica
from wirekafka.metadata.controller.directories import DirectoryReports
from wirekafka.metadata.controller.registration import DIRECTORIES_SINCE
from wirekafka.metadata.image.framing import METADATA_FEATURE
from wirekafka.metadata.image.image import MetadataImage, PartitionImage, TopicImage

DIRECTORY = b"d" * 16
TOPIC = TopicImage("t", b"t" * 16)


class Member:
    """Notes the reports, after the failures that are set."""

    broker_id = 1

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.reported: list[dict[Replica, bytes]] = []

    async def assign_directories(self, directories: Mapping[Replica, bytes]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.reported.append(dict(directories))


def partition(index: int) -> PartitionImage:
    return PartitionImage(index, [1], [1], 1, 0, 0)


@pytest.mark.parametrize(
    "failure", [KafkaError(Error.NETWORK_EXCEPTION), RuntimeError("of any other kind")]
)
def test_a_report_that_fails_is_sent_again_with_those_that_came_since(failure: Exception) -> None:
    clock, member, image = ManualClock(), Member(failure), MetadataImage()
    image.features[METADATA_FEATURE] = DIRECTORIES_SINCE
    reports = DirectoryReports(member, image, clock)
    reports.note(TOPIC, partition(0), DIRECTORY)
    clock.advance(0)
    assert member.reported == []
    reports.note(TOPIC, partition(1), DIRECTORY)
    clock.advance(1_000)
    assert member.reported == [{(TOPIC.id, 0): DIRECTORY, (TOPIC.id, 1): DIRECTORY}]

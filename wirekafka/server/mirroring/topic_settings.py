"""Configurations of mirrored topics, as the source has them (`serve --mirror-configs`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from wirekafka.broker import Broker
from wirekafka.config.option import ConfigError
from wirekafka.config.options import TOPIC as TOPIC_OPTIONS
from wirekafka.errors import KafkaError
from wirekafka.metadata.controller.configs import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from wirekafka.metadata.image.image import TOPIC
from wirekafka.protocol.describe_configs import DescribeConfigsRequest
from wirekafka.server.mirroring.source_cluster import SourceCluster

logger = logging.getLogger(__name__)

KEPT: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""The configuration of mirrors otherwise: they keep what the source keeps."""

_LEFT_OUT = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "preallocate",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    }
)
"""What belongs to the source's brokers, as far as MirrorMaker leaves it out too."""
_DEFAULT = 5
"""The source of a value that nobody has set."""
_ASKED_AT_ONCE = 100


class TopicSettings:
    """Reads the source's configurations of topics, and keeps the mirrors' equal."""

    def __init__(self, broker: Broker, source: SourceCluster):
        self._broker, self._source = broker, source
        self._refused: dict[str, str] = {}

    async def of(self, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
        """The settings of each topic that may be described. Raises KafkaError."""
        found: dict[str, Mapping[str, str]] = {}
        ordered = sorted(names)
        for first in range(0, len(ordered), _ASKED_AT_ONCE):
            found |= await self._described(ordered[first : first + _ASKED_AT_ONCE])
        return found

    async def follow(self, names: Iterable[str]) -> None:
        """Change what differs from the source. Raises KafkaError."""
        changes = []
        for name, wanted in (await self.of(names)).items():
            present = self._broker.image.config(TOPIC, name)
            its_changes = [
                ConfigChange(option, ConfigOperation.SET, value)
                for option, value in wanted.items()
                if present.get(option) != value
            ] + [
                ConfigChange(option, ConfigOperation.DELETE, None)
                for option in present
                if option not in wanted and _is_copied(option)
            ]
            if its_changes:
                changes.append(ResourceChanges(TOPIC, name, its_changes))
        if not changes:
            return
        outcome = await self._broker.controller.submit(AlterConfigs(changes))
        for change, error in zip(changes, outcome, strict=True):
            if error is not None:
                self._note_refusal(change.name, str(error))
        await self._broker.controller_channel.follow()

    async def _described(self, names: list[str]) -> dict[str, Mapping[str, str]]:
        kind = DescribeConfigsRequest.Resource
        request = DescribeConfigsRequest(
            resources=[
                kind(resource_type=TOPIC, resource_name=name, configuration_keys=None)
                for name in names
            ]
        )
        response = await self._source.send_to_any(request)
        found: dict[str, Mapping[str, str]] = {}
        for result in response.results:
            if result.error_code:
                error = KafkaError.of(result.error_code, result.error_message)
                self._note_refusal(result.resource_name, str(error))
            else:
                self._refused.pop(result.resource_name, None)
                found[result.resource_name] = {
                    each.name: each.value
                    for each in result.configs
                    if each.value is not None
                    and (each.config_source != _DEFAULT or each.name in KEPT)
                    and _is_copied(each.name)
                    and _is_valid(each.name, each.value)
                }
        return found

    def _note_refusal(self, name: str, reason: str) -> None:
        if self._refused.get(name) != reason:
            self._refused[name] = reason
            logger.error("The configuration of topic %s is not mirrored: %s", name, reason)


def _is_copied(option: str) -> bool:
    is_own = option.startswith("wirekafka.")
    return option in TOPIC_OPTIONS and option not in _LEFT_OUT and not is_own


def _is_valid(option: str, value: str) -> bool:
    try:
        TOPIC_OPTIONS[option].parse(value)
    except ConfigError:
        return False
    return True

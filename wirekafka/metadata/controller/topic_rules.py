"""The rules of elections and ISRs for each topic, from its configuration and the live brokers."""

from __future__ import annotations

from wirekafka.metadata.controller.command import ControllerState
from wirekafka.metadata.controller.placement import default_directory
from wirekafka.metadata.image.image import BROKER, TOPIC, PartitionImage, TopicImage
from wirekafka.metadata.image.partition_change import ElectionRule, Rules

MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_NONE = -1


class TopicRules:
    """The `Rules` of topics in one decision.

    The broker `gone` counts as inactive, and `back` as active, whatever the metadata says: the
    records of the decision are about to change it.
    """

    def __init__(self, state: ControllerState, *, gone: int = _NONE, back: int = _NONE):
        self._state = state
        self._gone, self._back = gone, back
        self._min_isr = cluster_setting(state, MIN_ISR, str(state.config.min_insync_replicas))
        self._unclean = cluster_setting(
            state, _UNCLEAN, str(state.config.unclean_leader_election_enable)
        )

    def of(self, topic: TopicImage) -> Rules:
        """The rules of one topic."""
        image = self._state.image
        overrides = image.config(TOPIC, topic.name)
        unclean = overrides.get(_UNCLEAN, self._unclean)
        return Rules(
            self._is_alive,
            self._default_directory,
            min(int(overrides.get(MIN_ISR, self._min_isr)), len(topic.partitions[0].replicas)),
            image.has_elr,
            image.metadata_version,
            ElectionRule.UNCLEAN if unclean.strip().lower() == "true" else ElectionRule.ONLINE,
        )

    def _is_alive(self, partition: PartitionImage, id: int) -> bool:
        if id == self._gone or not (id == self._back or self._state.is_active(id)):
            return False
        return self._state.image.brokers[id].has_online(partition.directory_of(id))

    def _default_directory(self, broker: int) -> bytes:
        return default_directory(self._state.image, broker)


def cluster_setting(state: ControllerState, name: str, default: str) -> str:
    """The effective value of a broker's option on the controllers, without topics' overrides.

    It is read from the appended metadata: the configuration follows the committed one.
    """
    image = state.image
    of_cluster = image.config(BROKER, "").get(name, default)
    return image.config(BROKER, str(state.config.node_id)).get(name, of_cluster)

"""The checks that this node can serve the metadata in its log directories."""

from __future__ import annotations

from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.metadata.controller.features import SUPPORTED
from wirekafka.metadata.image.framing import METADATA_FEATURE
from wirekafka.metadata.image.image import TOPIC, MetadataImage

_TIERED = "remote.storage.enable"

_EARLY_RELEASES = {1: "3.0", 2: "3.1", 3: "3.2", 4: "3.3", 5: "3.3", 6: "3.3"}
"""The Kafka release of each metadata.version below the supported range."""


def check_compatible(image: MetadataImage) -> None:
    """Raise `UnusableDirectory`, naming the feature whose level is not supported."""
    for name, level in image.features.items():
        first, last = SUPPORTED.get(name, (0, 0))
        if not first <= level <= last:
            raise UnusableDirectory(
                f"the cluster is at {name} {level}; this version of wirekafka "
                f"serves {first} to {last}{_way_out(name, level, last)}"
            )


def check_untiered(image: MetadataImage, node_id: int) -> None:
    """Raise `UnusableDirectory`, naming a tiered topic with a replica on a broker without a tier.

    Its older records could not be read. Apache Kafka logs the same sentence, and starts.
    """
    for topic in image.topics.values():
        if image.config(TOPIC, topic.name).get(_TIERED) == "true" and any(
            node_id in partition.replicas for partition in topic.partitions.values()
        ):
            raise UnusableDirectory(
                f"topic {topic.name} is tiered, but remote.log.storage.system.enable is false: "
                f"You have to delete all topics with the property {_TIERED}=true before "
                "disabling tiered storage cluster-wide"
            )


def check_alone(image: MetadataImage, node_id: int) -> None:
    """Raise `UnusableDirectory`, naming a partition on another node, for a node on its own."""
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if partition.replicas != [node_id]:
                raise UnusableDirectory(
                    f"partition {topic.name}-{partition.index} is on brokers "
                    f"{partition.replicas}, not on broker {node_id} alone"
                )


def _way_out(name: str, level: int, last: int) -> str:
    """The end of the message for an unsupported feature level: the user's way out."""
    if name == METADATA_FEATURE and level in _EARLY_RELEASES:
        return (
            f". It is that of Kafka {_EARLY_RELEASES[level]}: start the directory once with "
            "Kafka 3.9 and run `kafka-features.sh upgrade --release-version 3.9`"
        )
    return (
        ". It is newer than Kafka 4.4: lower it there with `kafka-features.sh downgrade "
        f"--feature {name}={last}`, or use a newer wirekafka"
    )

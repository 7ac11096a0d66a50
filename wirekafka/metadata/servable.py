"""Whether a cluster's metadata is such that this node can serve it alone."""

from __future__ import annotations

from wirekafka.log.log_directory import UnusableDirectory
from wirekafka.metadata.features import SUPPORTED
from wirekafka.metadata.image import TOPIC, MetadataImage

_TIERED = "remote.storage.enable"


def check_servable(image: MetadataImage, node_id: int) -> None:
    """Raises `UnusableDirectory` that names what is beyond this node."""
    for name, level in image.features.items():
        first, last = SUPPORTED.get(name, (0, 0))
        if not first <= level <= last:
            raise UnusableDirectory(f"the cluster is at {name} {level}; this version of wirekafka "
                                    f"serves {first} to {last}")
    for topic in image.topics.values():
        if image.config(TOPIC, topic.name).get(_TIERED) == "true":
            raise UnusableDirectory(f"topic {topic.name} is tiered ({_TIERED}=true): its older "
                                    "records are not here")
        for partition in topic.partitions.values():
            if partition.replicas != [node_id]:
                raise UnusableDirectory(
                    f"partition {topic.name}-{partition.index} is on brokers "
                    f"{partition.replicas}, not on broker {node_id} alone")

"""A broker whose tiered storage was disabled refuses to serve what is left of tiered topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from wirekafka import Broker, Cluster

_SEGMENTS = {"segment.bytes": 1 << 20, "local.retention.bytes": 1}
_STATED = (
    "topic orders is tiered, but .* You have to delete all topics with the property "
    "remote.storage.enable=true before disabling tiered storage cluster-wide"
)


def _tiered(tier: Path) -> dict[str, object]:
    return {
        "remote.log.storage.system.enable": True,
        "wirekafka.tier": f"file://{tier}",
        "remote.log.manager.task.interval.ms": 100,
        "log.retention.check.interval.ms": 100,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
    }


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_disabling_tiered_storage_is_refused_while_there_are_tiered_topics(
    tmp_path: Path, kind: type[Broker] | type[Cluster]
) -> None:
    """As a node that is its own controller, and as a broker whose controllers are elsewhere."""
    data = tmp_path / "data"
    options: dict[str, Any] = {"brokers": 1} if kind is Cluster else {}
    with kind(directory=data, config=_tiered(tmp_path / "tier"), **options) as tiered:
        tiered.create_topic("orders", config={"remote.storage.enable": True, **_SEGMENTS})
        tiered.produce("orders", [bytes(500_000)] * 4)
        eventually(lambda: tiered.records("orders")[0].offset == 2)
    with pytest.raises(ValueError, match=_STATED), kind(directory=data, **options):
        pass
    with kind(directory=data, config=_tiered(tmp_path / "tier"), **options) as tiered:
        tiered.delete_topic("orders")
    with kind(directory=data, **options) as untiered:
        untiered.produce("orders", [b"x"])

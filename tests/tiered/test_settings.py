"""Options of the storage class and of the metadata topic are applied, or refused at the start."""

from __future__ import annotations

import pytest

from tests.tiered.tiered_log import MemoryStore
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.server.tiering.settings import (
    AIVEN_CLASS,
    CLASS_NAME,
    LOCAL_CLASS,
    MetadataTopicOptions,
    opened_layout,
)
from wirekafka.tiered.chunked_layout import ChunkedLayout
from wirekafka.tiered.layout import Layout
from wirekafka.tiered.local_layout import LocalLayout

_AIVEN = {"chunk.size": "4194304", "storage.backend.class": "a.FileSystemStorage"}
_TOPIC = "rlmm.config.remote.log.metadata.topic."


def _opened(class_name: str, options: dict[str, str]) -> Layout:
    given = {f"rsm.config.{name}": text for name, text in options.items()}
    return opened_layout(BrokerConfig.of({CLASS_NAME: class_name, **given}), MemoryStore())


def test_each_class_has_its_layout() -> None:
    assert isinstance(_opened(LOCAL_CLASS, {"dir": "/t"}), LocalLayout)
    assert isinstance(_opened(AIVEN_CLASS, {**_AIVEN, "storage.root": "/t"}), ChunkedLayout)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chunk.size", None),
        ("chunk.size", "many"),
        ("chunk.size", "0"),
        ("chunk.size", "1073741824"),
        ("compression.enabled", "yes"),
        ("compression.heuristic.enabled", "1"),
        ("encryption.enabled", "true"),
        ("encryption.enabled", "on"),
        ("storage.aws.credentials.provider.class", "com.example.Provider"),
        ("storage.azure.connection.string", "AccountName=a"),
    ],
)
def test_an_option_of_aivens_class_that_cannot_be_honoured_is_refused(
    name: str, text: str | None
) -> None:
    options = {**_AIVEN, name: text}
    with pytest.raises(ConfigError) as caught:
        _opened(AIVEN_CLASS, {name: text for name, text in options.items() if text is not None})
    assert caught.value.name == f"rsm.config.{name}"
    assert "AccountName" not in str(caught.value), "it may be a secret"


def test_options_that_only_tune_aivens_class_are_named_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _opened(AIVEN_CLASS, {**_AIVEN, "storage.root": "/t", "fetch.chunk.cache.size": "1"})
    [message] = [record.getMessage() for record in caplog.records]
    assert "rsm.config.fetch.chunk.cache.size" in message


def test_another_class_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        _opened("com.example.Manager", {})
    assert caught.value.name == CLASS_NAME


def test_the_store_is_named_once() -> None:
    with pytest.raises(ConfigError, match=r"wirekafka\.tier is set as well"):
        opened_layout(
            BrokerConfig.of({CLASS_NAME: LOCAL_CLASS, "wirekafka.tier": "file:///t"}), MemoryStore()
        )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num.partitions", "0"),
        ("num.partitions", "few"),
        ("replication.factor", "0"),
        ("min.isr", "0"),
        ("retention.ms", "0"),
        ("retention.ms", "-2"),
    ],
)
def test_a_metadata_topic_that_cannot_be_created_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MetadataTopicOptions.of(BrokerConfig.of({_TOPIC + name: text}))
    assert caught.value.name == _TOPIC + name


def test_the_metadata_topic_has_as_many_replicas_as_there_are_brokers() -> None:
    given = {_TOPIC + "num.partitions": "7", _TOPIC + "retention.ms": "-1"}
    topic = MetadataTopicOptions.of(BrokerConfig.of(given)).topic(live_brokers=1)
    assert (topic.num_partitions, topic.replication_factor) == (7, 1)
    assert (topic.configs["min.insync.replicas"], topic.configs["retention.ms"]) == ("1", "-1")

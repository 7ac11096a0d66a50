"""The options of tiered topics, checked with the messages that Apache Kafka 4.4.0 answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.update import validate_topic
from wirekafka.errors import Error, KafkaError

_ON = {"remote.storage.enable": "true"}
_READ_ONLY = {**_ON, "remote.log.copy.disable": "true"}
_COMPACTED = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being "
    "an empty list."
)
_IDENTICAL = (
    "When `remote.log.copy.disable` is set to true, the `local.retention.{0}` and `retention.{0}` "
    "must be set to the identical value because there will be no more logs copied to the remote "
    "storage."
)
REFUSED: tuple[tuple[Mapping[str, str], str], ...] = (
    ({**_ON, "cleanup.policy": "compact"}, _COMPACTED),
    ({**_ON, "cleanup.policy": "compact,delete"}, _COMPACTED),
    (
        {**_ON, "retention.bytes": "1000", "local.retention.bytes": "-1"},
        "Invalid value -1 for configuration local.retention.bytes: "
        "Value must not be -1 as retention.bytes value is set as 1000.",
    ),
    (
        {**_ON, "retention.ms": "1000", "local.retention.ms": "1001"},
        "Invalid value 1001 for configuration local.retention.ms: "
        "Value must not be more than retention.ms property value: 1000",
    ),
    (
        {
            **_ON,
            "retention.ms": "1000",
            "local.retention.ms": "1001",
            "retention.bytes": "1000",
            "local.retention.bytes": "1001",
        },
        "Invalid value 1001 for configuration local.retention.bytes: "
        "Value must not be more than retention.bytes property value: 1000",
    ),
    (
        {
            **_ON,
            "retention.bytes": "1000",
            "local.retention.bytes": "500",
            "remote.copy.lag.bytes": "501",
        },
        "Invalid value 501 for configuration remote.copy.lag.bytes: "
        "Value must not exceed local.retention.bytes (effective value: 500)",
    ),
    (
        {**_ON, "retention.ms": "1000", "local.retention.ms": "-2", "remote.copy.lag.ms": "1001"},
        "Invalid value 1001 for configuration remote.copy.lag.ms: "
        "Value must not exceed local.retention.ms (effective value: 1000)",
    ),
    ({**_READ_ONLY, "retention.ms": "1000", "local.retention.ms": "500"}, _IDENTICAL.format("ms")),
    (
        {**_READ_ONLY, "retention.bytes": "1000", "local.retention.bytes": "500"},
        _IDENTICAL.format("bytes"),
    ),
)
ACCEPTED: tuple[Mapping[str, str], ...] = (
    {**_ON, "cleanup.policy": ""},
    {**_ON, "remote.copy.lag.ms": "-1"},
    {**_READ_ONLY, "retention.bytes": "1000", "local.retention.bytes": "1000"},
    {"remote.storage.enable": "false", "retention.ms": "1000", "local.retention.ms": "1001"},
)
_WITHOUT_DELETION = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep "
    "the remote data and turn to read only, please set "
    "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable remote "
    "storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)


@pytest.fixture
def broker() -> BrokerConfig:
    return BrokerConfig.of({"remote.log.storage.system.enable": "true", "log.dirs": "/tmp/unused"})


@pytest.mark.parametrize(("overrides", "message"), REFUSED)
def test_options_that_do_not_go_together_are_refused(
    broker: BrokerConfig, overrides: Mapping[str, str], message: str
) -> None:
    with pytest.raises(KafkaError) as refusal:
        validate_topic(broker, overrides)
    assert (refusal.value.error, refusal.value.message) == (Error.INVALID_CONFIG, message)


@pytest.mark.parametrize("overrides", ACCEPTED)
def test_other_options_are_accepted(broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    validate_topic(broker, overrides)


@pytest.mark.parametrize("after", [{"remote.storage.enable": "false"}, {}])
def test_a_topic_is_not_disabled_without_deleting_what_is_remote(
    broker: BrokerConfig, after: Mapping[str, str]
) -> None:
    with pytest.raises(KafkaError) as refusal:
        validate_topic(broker, after, _ON)
    assert refusal.value.message == _WITHOUT_DELETION
    validate_topic(broker, {**after, "remote.log.delete.on.disable": "true"}, _ON)

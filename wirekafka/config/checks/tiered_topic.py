"""Checks the options of a topic for tiered storage, in Apache Kafka's order and words."""

from __future__ import annotations

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError

_UNLIMITED, _AS_TOTAL = -1, -2


def check_tiered(broker: BrokerConfig, config: TopicConfig, before: TopicConfig | None) -> None:
    """Raise KafkaError(INVALID_CONFIG) for options that do not go together.

    `before` is the present configuration, None for a topic that is created.
    """
    if config.remote_storage_enable:
        if not broker.remote_log_storage_system_enable:
            raise _invalid(
                "Tiered Storage functionality is disabled in the broker. Topic "
                "cannot be configured with remote log storage."
            )
        if config.is_compacted:
            raise _invalid(
                "Remote log storage only supports topics with cleanup.policy=delete or "
                "cleanup.policy being an empty list."
            )
        try:
            for unit in ("bytes", "ms"):
                _check_local_retention(config, unit)
            for unit in ("bytes", "ms"):
                _check_copy_lag(config, unit)
        except ConfigError as error:
            raise _invalid(str(error)) from None
        if config.remote_log_copy_disable:
            for unit in ("bytes", "ms"):
                _check_read_only(config, unit)
    elif before is not None and before.remote_storage_enable:
        _check_disabling(config)


def _check_local_retention(config: TopicConfig, unit: str) -> None:
    total: int = getattr(config, f"retention_{unit}")
    local: int = getattr(config, f"local_retention_{unit}")
    if total == _UNLIMITED or local == _AS_TOTAL:
        return
    name = f"local.retention.{unit}"
    if local == _UNLIMITED:
        reason = f"Value must not be -1 as retention.{unit} value is set as {total}."
        raise ConfigError(name, local, reason)
    if local > total:
        reason = f"Value must not be more than retention.{unit} property value: {total}"
        raise ConfigError(name, local, reason)


def _check_copy_lag(config: TopicConfig, unit: str) -> None:
    total: int = getattr(config, f"retention_{unit}")
    local: int = getattr(config, f"local_retention_{unit}")
    lag: int = getattr(config, f"remote_copy_lag_{unit}")
    limit = total if local == _AS_TOTAL else local
    if lag > limit >= 0:
        reason = f"Value must not exceed local.retention.{unit} (effective value: {limit})"
        raise ConfigError(f"remote.copy.lag.{unit}", lag, reason)


def _check_read_only(config: TopicConfig, unit: str) -> None:
    if getattr(config, f"local_retention_{unit}") not in (
        _AS_TOTAL,
        getattr(config, f"retention_{unit}"),
    ):
        raise _invalid(
            f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
            f"`retention.{unit}` must be set to the identical value because there will be no more "
            "logs copied to the remote storage."
        )


def _check_disabling(config: TopicConfig) -> None:
    if not config.remote_log_delete_on_disable:
        raise _invalid(
            "It is invalid to disable remote storage without deleting remote data. If you want "
            "to keep the remote data and turn to read only, please set "
            "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
            "remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(Error.INVALID_CONFIG, message)

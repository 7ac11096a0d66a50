"""Whether a set of topic configs may be: each value for itself, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping

from wirekafka.config.topic_config import TopicConfig, validate_topic_config
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.command import ControllerState


def check_topic_configs(
    configs: Mapping[str, str | None], state: ControllerState
) -> dict[str, str]:
    """The configs, none of them null. Raises INVALID_CONFIG in Kafka's words."""
    values = {name: value for name, value in configs.items() if value is not None}
    if len(values) < len(configs):
        absent = ",".join(name for name in configs if name not in values)
        raise KafkaError(Error.INVALID_CONFIG,
                         f"Null value not supported for topic configs: {absent}")
    for name in sorted(values):
        validate_topic_config(name, values[name])
    effective = TopicConfig.resolve(state.config, values)
    if effective.min_compaction_lag_ms > effective.max_compaction_lag_ms:
        raise KafkaError(Error.INVALID_CONFIG, (
            "conflict topic config setting min.compaction.lag.ms "
            f"({effective.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({effective.max_compaction_lag_ms})"))
    if effective.remote_storage_enable and not state.config.remote_log_storage_system_enable:
        raise KafkaError(Error.INVALID_CONFIG,
                         "Tiered Storage functionality is disabled in the broker. Topic cannot "
                         "be configured with remote log storage.")
    return values

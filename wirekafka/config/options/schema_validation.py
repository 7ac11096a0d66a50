"""Options of topics whose records must name a registered schema, as in Confluent Server."""

from __future__ import annotations

from wirekafka.config.check import one_of
from wirekafka.config.option import boolean, string

_PACKAGE = "io.confluent.kafka.serializers.subject"
BY_TOPIC = f"{_PACKAGE}.TopicNameStrategy"
BY_RECORD = f"{_PACKAGE}.RecordNameStrategy"
BY_TOPIC_AND_RECORD = f"{_PACKAGE}.TopicRecordNameStrategy"
"""The names of a subject: `<topic>-value` or `<topic>-key`; the record's full name; both as
`<topic>-<record>`."""

_STRATEGY = one_of(BY_TOPIC, BY_RECORD, BY_TOPIC_AND_RECORD)


class SchemaValidationOptions:
    """Topic options of schema validation, by attribute; described only where a topic sets them."""

    __slots__ = ()

    confluent_key_schema_validation = boolean(
        False,
        internal=True,
        doc="Whether a record is refused unless the schema of its key is registered for the topic.",
    )
    confluent_key_subject_name_strategy = string(
        BY_TOPIC, _STRATEGY, internal=True, doc="The subject that keys' schemas are registered for."
    )
    confluent_value_schema_validation = boolean(
        False,
        internal=True,
        doc="Whether a record is refused unless the schema of its value is registered for the "
        "topic.",
    )
    confluent_value_subject_name_strategy = string(
        BY_TOPIC,
        _STRATEGY,
        internal=True,
        doc="The subject that values' schemas are registered for.",
    )

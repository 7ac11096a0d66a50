"""The schemas of a topic's values, from a registry, as typed values."""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from uuid import UUID

import pyarrow as pa

from wirekafka.client.client import CliError
from wirekafka.client.schema_registry import RegisteredSchema, RegistryRefused, SchemaRegistry
from wirekafka.config.table_mode import TableKind, TableMode
from wirekafka.schemas.message_indexes import message_indexes
from wirekafka.schemas.schema import Format, SchemaError
from wirekafka.tables.typed.formats import typed_values
from wirekafka.tables.typed.values import TypedValues, UnsupportedSchema
from wirekafka.translation.groups import (
    GroupedValues,
    Part,
    Postponed,
    Reference,
    Undecodable,
    ValueGroup,
    grouped_by_reference,
)
from wirekafka.translation.problems import TablePaused, TableRetrying

_NOT_FOUND = range(40_400, 40_500)
"""The registry's error codes for ids, GUIDs and subjects that it does not have."""
_LATEST_FOR_S = 300.0
"""How long the latest schema of a subject is used before it is asked for again, as Redpanda."""
_KEPT = 1_000
_MOST_LOOK_UPS = 1_000
_LONGEST_LOOK_UPS_S = 30.0
"""After so many look-ups, or so long, a turn asks the registry for no further schemas."""

Key = tuple[Reference, tuple[int, ...]]


class TopicSchemas:
    """The schemas that values of one topic name, by id or GUID (`value_schema_id_prefix`)."""

    def __init__(self, registry: SchemaRegistry, now_s: Callable[[], float] = time.monotonic):
        self._registry = registry
        self._now_s = now_s
        self._values: dict[Key, TypedValues | Undecodable] = {}
        self._asked: set[Reference] = set()
        """What this turn has looked up."""
        self._unknown: dict[Reference, Undecodable] = {}
        """What this turn has not found: it is the same for the whole turn."""
        self._until_s = math.inf
        self._most_look_ups = sys.maxsize

    def begin_turn(self) -> None:
        """Allow for further look-ups: one turn must not ask for each of a million unknown ids."""
        self._asked.clear()
        self._unknown.clear()
        self._until_s = self._now_s() + _LONGEST_LOOK_UPS_S
        self._most_look_ups = _MOST_LOOK_UPS

    def grouped(self, batch: pa.RecordBatch, settled_rows: int | None) -> GroupedValues:
        """The values of a batch by schema. Raises TableRetrying.

        See `groups.grouped_by_reference`.
        """
        return grouped_by_reference(batch, self, settled_rows)

    def divided(self, reference: Reference, payloads: Sequence[bytes]) -> Sequence[Part]:
        """See `groups.Schemas`."""
        schema = self._schema(reference)
        if isinstance(schema, Undecodable | Postponed):
            return [(schema, range(len(payloads)), payloads)]
        if schema.format is not Format.PROTOBUF:
            return [(self._typed(schema, reference), range(len(payloads)), payloads)]
        return self._messages(schema, reference, payloads)

    def _messages(
        self, schema: RegisteredSchema, reference: Reference, payloads: Sequence[bytes]
    ) -> Sequence[Part]:
        divided: dict[tuple[int, ...] | Undecodable, tuple[list[int], list[bytes]]]
        divided = defaultdict(lambda: ([], []))
        for place, payload in enumerate(payloads):
            indexes: tuple[int, ...] | Undecodable
            try:
                indexes, start = message_indexes(payload)
            except ValueError as error:
                indexes, start = Undecodable(str(error)), 0
            places, own = divided[indexes]
            places.append(place)
            own.append(payload[start:])
        return [
            (
                indexes
                if isinstance(indexes, Undecodable)
                else self._typed(schema, reference, indexes),
                places,
                own,
            )
            for indexes, (places, own) in divided.items()
        ]

    def _schema(self, reference: Reference) -> RegisteredSchema | Undecodable | Postponed:
        if reference in self._unknown:
            return self._unknown[reference]
        if reference not in self._asked:
            if len(self._asked) >= self._most_look_ups or self._now_s() > self._until_s:
                return Postponed()
            self._asked.add(reference)
        try:
            if isinstance(reference, UUID):
                return self._registry.schema_of_guid(reference)
            return self._registry.schema(reference)
        except RegistryRefused as error:
            if _is_unknown(error):
                reason = f"the registry has no schema {reference}"
                unknown = self._unknown[reference] = Undecodable(reason, may_pass=True)
                return unknown
            raise TableRetrying(str(error)) from None
        except CliError as error:
            raise TableRetrying(str(error)) from None

    def _typed(
        self, schema: RegisteredSchema, reference: Reference, indexes: tuple[int, ...] = (0,)
    ) -> TypedValues | Undecodable:
        """The typed values of a schema, kept once known."""
        known = self._values.get((reference, indexes))
        if known is None:
            if len(self._values) >= _KEPT:
                self._values.clear()
            try:
                known = typed_values(schema.parsed, indexes)
            except (SchemaError, UnsupportedSchema) as error:
                known = Undecodable(f"schema {reference} cannot be a table: {error}")
            except CliError as error:  # About one of the schemas that it refers to.
                raise TableRetrying(str(error)) from None
            self._values[reference, indexes] = known
        return known


class LatestSchema:
    """The latest schema of a subject, for values without a prefix (`value_schema_latest`)."""

    def __init__(
        self,
        registry: SchemaRegistry,
        subject: str,
        protobuf_name: str | None,
        now_s: Callable[[], float] = time.monotonic,
    ):
        self._registry = registry
        self._subject = subject
        self._protobuf_name = protobuf_name
        self._now_s = now_s
        self._values: TypedValues | None = None
        self._until_s = 0.0

    def begin_turn(self) -> None:
        """A turn asks for one schema at the most."""

    def grouped(self, batch: pa.RecordBatch, settled_rows: int | None) -> GroupedValues:
        """The values of a batch in one group. Raises TablePaused and TableRetrying."""
        texts = batch.column("value").to_pylist()
        indexes = [index for index, text in enumerate(texts) if text is not None]
        if not indexes:
            return GroupedValues()
        payloads = [texts[index] for index in indexes]
        return GroupedValues([ValueGroup(self._current(), indexes, payloads)])

    def _current(self) -> TypedValues:
        if self._values is None or self._now_s() >= self._until_s:
            self._values = self._looked_up()
            self._until_s = self._now_s() + _LATEST_FOR_S
        return self._values

    def _looked_up(self) -> TypedValues:
        try:
            schema = self._registry.version(self._subject)
            indexes: Sequence[int] = (0,)
            if self._protobuf_name is not None:
                from wirekafka.tables.typed.protobuf import indexes_of

                indexes = indexes_of(schema.parsed, self._protobuf_name)
            return typed_values(schema.parsed, indexes)
        except RegistryRefused as error:
            if _is_unknown(error):
                raise TablePaused(f"the registry has no subject {self._subject}") from None
            raise TableRetrying(str(error)) from None
        except CliError as error:
            raise TableRetrying(str(error)) from None
        except (SchemaError, ValueError) as error:
            raise TablePaused(
                f"the latest schema of {self._subject} cannot be a table: {error}"
            ) from None


def _is_unknown(error: RegistryRefused) -> bool:
    """Whether a registry has no such schema.

    What answers 404 without its codes is no registry, but a proxy or a wrong path, and says nothing
    of the schema.
    """
    return error.code in _NOT_FOUND


def schemas_of(
    topic: str,
    mode: TableMode,
    registry: SchemaRegistry | None,
    now_s: Callable[[], float] = time.monotonic,
) -> TopicSchemas | LatestSchema | None:
    """What finds the schemas of a topic's values; None for `key_value`. Raises TablePaused."""
    if mode.kind is TableKind.KEY_VALUE:
        return None
    if registry is None:
        raise TablePaused(
            f"{mode.kind} needs a schema registry: set confluent.schema.registry.url,"
            " or serve with --schema-registry"
        )
    if mode.kind is TableKind.SCHEMA_ID_PREFIX:
        return TopicSchemas(registry, now_s)
    subject = mode.subject or f"{topic}-value"
    return LatestSchema(registry, subject, mode.protobuf_name, now_s)

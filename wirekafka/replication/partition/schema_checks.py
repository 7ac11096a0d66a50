"""Checks that clients' records name schemas that a registry has for their topic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias
from uuid import UUID

from wirekafka.bounded_memory import Remembered
from wirekafka.clock import Clock
from wirekafka.codec.batch import Buffer, read_header
from wirekafka.codec.record import Record, iterate_body, record_bytes
from wirekafka.config.options.schema_validation import BY_TOPIC
from wirekafka.config.topic_config import TopicConfig
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import RecordsRefused, invalid_record, invalid_records
from wirekafka.log.conversion import MOST_ERRORS, MOST_HELD_BYTES
from wirekafka.replication.partition.schema_refusal import RunApart
from wirekafka.runtime.promise import Promise, computed
from wirekafka.schemas.framing import KEY_SCHEMA_ID, VALUE_SCHEMA_ID, framed
from wirekafka.schemas.message_indexes import message_indexes
from wirekafka.schemas.schema import ValueMismatch

PATIENCE_MS = 5_000
"""How long a batch waits for the registry in all, before it is refused with an error that clients
retry."""
_REGISTERED_MS = 60_000
"""How long a schema counts as registered before the registry is asked again. Records are accepted
while it is asked: a registry that cannot be reached only stops schemas that are new."""
_UNREGISTERED_MS = 1_000
"""How long a schema counts as not registered: clients may register it at any time."""
_STOPPING = "the broker is stopping"
_MOST_REFUSED = 10
"""The registry is asked about no more schemas of a batch once it does not have this many."""
_INDEXES_BYTES = 64
"""More indexes of messages within each other would be a schema that nobody has."""
_VERDICTS_BYTES, _VERDICT_BYTES = 4 << 20, 800
_REASON_CHARACTERS = 500
"""The longest reason, which has the name of a subject, that is returned."""


class SchemaUse(NamedTuple):
    """The use of a schema, by its id or GUID, for keys or values of a topic."""

    reference: int | UUID
    topic: str
    is_key: bool
    strategy: str
    """The class name of the strategy that names the subject."""
    message: tuple[int, ...] | None = None
    """The indexes of a Protobuf message, once it is known that the schema is of that format."""

    @property
    def part(self) -> str:
        """The part of a record that the schema describes."""
        return "key" if self.is_key else "value"


@dataclass(frozen=True, slots=True)
class ByMessage:
    """The answer about a schema of several messages, each of which has a subject of its own."""


class UnreachableRegistry(Exception):
    """The registry gives no answer; the text is the reason."""


LookUp: TypeAlias = Callable[[SchemaUse], str | ByMessage | None]
"""Asks the registry, in a thread: None if the schema is registered, or else the reason to refuse
its records, or that each message has to be asked about. Raises UnreachableRegistry."""


class SchemaChecks:
    """The schemas that are known to be registered, or not; others are looked up.

    Records of several batches wait for one look-up of the same schema.
    """

    def __init__(self, look_up: LookUp, run: RunApart, clock: Clock):
        """`run` runs a look-up in a thread."""
        self._look_up, self._run, self._clock = look_up, run, clock
        self._known: Remembered[SchemaUse, _Verdict] = Remembered(_VERDICTS_BYTES, _VERDICT_BYTES)
        self._waiting: dict[SchemaUse, list[Promise[_Verdict]]] = {}
        """The batches that wait for each look-up."""
        self._has_stopped = False

    async def refusal(
        self, records: Buffer, topic: str, config: TopicConfig, check_apart: RunApart
    ) -> KafkaError | None:
        """The error of a valid batch with a record whose schema is not registered; None if it has
        none.

        The records are inflated and read by `check_apart`.
        """
        named = await computed(check_apart, partial(schemas_named, records, topic, config))
        if isinstance(named, RecordsRefused):
            return named
        errors, refused = named.errors, 0
        deadline_ms = self._clock.now_ms() + PATIENCE_MS
        try:
            async for indexes, reason in self._reasons(named, deadline_ms):
                if reason is not None:
                    errors += [(index, reason) for index in indexes[:MOST_ERRORS]]
                    refused += 1
                if refused == _MOST_REFUSED:
                    break
        except UnreachableRegistry as error:
            if not errors:
                return KafkaError(
                    Error.REQUEST_TIMED_OUT, f"The schemas of the records are unknown: {error}"
                )
        return invalid_records(sorted(errors)[:MOST_ERRORS]) if errors else None

    def stop(self) -> None:
        """Refuse the batches that wait, and all later ones, with the error that clients retry."""
        self._has_stopped = True
        for promise in chain.from_iterable(self._waiting.values()):
            promise.set(UnreachableRegistry(_STOPPING))

    async def _reasons(
        self, named: Named, deadline_ms: int
    ) -> AsyncIterator[tuple[list[int], str | None]]:
        """The positions of records with one schema, or one message, and why they are refused."""
        for use, indexes in named.uses.items():
            reason = (await self._verdict(use, deadline_ms)).reason
            if not isinstance(reason, ByMessage):
                yield indexes, reason
                continue
            for message, positions in named.messages[use].items():
                verdict = await self._verdict(use._replace(message=message), deadline_ms)
                assert not isinstance(verdict.reason, ByMessage), "it is about one message"
                yield positions, verdict.reason

    async def _verdict(self, use: SchemaUse, deadline_ms: int) -> _Verdict:
        if self._has_stopped:
            raise UnreachableRegistry(_STOPPING)
        known = self._known.get(use)
        now_ms = self._clock.now_ms()
        if known is not None:
            if now_ms >= known.until_ms and use not in self._waiting:
                if isinstance(known.reason, str):
                    self._known.forget(use)
                    return await self._verdict(use, deadline_ms)
                self._ask(use)
            return known
        promise: Promise[_Verdict] = Promise()
        waiting = self._waiting.get(use)
        if waiting is None:
            self._ask(use, promise)
        else:
            waiting.append(promise)
        verdict = await promise.within(self._clock, max(0, deadline_ms - now_ms))
        if verdict is None:
            raise UnreachableRegistry("the schema registry has not answered in time")
        return verdict

    def _ask(self, use: SchemaUse, *promises: Promise[_Verdict]) -> None:
        waiting = self._waiting[use] = list(promises)
        found = list[str | ByMessage | None]()

        def ended(error: BaseException | None) -> None:
            del self._waiting[use]
            outcome: _Verdict | BaseException
            if error is None:
                reason = found[0]
                if isinstance(reason, str):
                    reason = reason[:_REASON_CHARACTERS]
                lasts_ms = _UNREGISTERED_MS if isinstance(reason, str) else _REGISTERED_MS
                outcome = _Verdict(reason, self._clock.now_ms() + lasts_ms)
                self._known.keep(use, outcome)
            else:
                outcome = error
            for promise in waiting:
                promise.set(outcome)

        self._run(lambda: found.append(self._look_up(use)), ended)


class _Verdict(NamedTuple):
    """The registry's answer about a schema, and how long it counts."""

    reason: str | ByMessage | None
    """Why records are refused; None if they are accepted."""
    until_ms: int


class Named(NamedTuple):
    """The schemas that the records of a batch name, and the records that name none."""

    uses: dict[SchemaUse, list[int]]
    """The positions in the batch of the records with each schema."""
    errors: list[tuple[int, str]]
    """Positions of records without a schema, and the reason to refuse each."""
    messages: dict[SchemaUse, dict[tuple[int, ...], list[int]]]
    """The positions by what may be the indexes of a message, where subjects have names of records.

    Only the registry knows whether a schema is Protobuf's. No indexes stand for wrong ones.
    """


def schemas_named(records: Buffer, topic: str, config: TopicConfig) -> Named | RecordsRefused:
    """Read the references to schemas in a client's valid batch.

    Null keys and values need no schema. A refusal is returned and not raised, as its traceback
    would keep the inflated records.
    """
    header = read_header(records)
    named = Named({}, [], {})
    try:
        body = record_bytes(records, header, limit_bytes=MOST_HELD_BYTES)
        for index, record in enumerate(iterate_body(body, header)):
            for found in _uses(record, topic, config):
                if isinstance(found, tuple):
                    use, payload = found
                    named.uses.setdefault(use, []).append(index)
                    if use.strategy != BY_TOPIC:
                        of_use = named.messages.setdefault(use, {})
                        of_use.setdefault(_indexes(payload), []).append(index)
                elif len(named.errors) < MOST_ERRORS:
                    named.errors.append((index, found))
    except KafkaError as error:
        return invalid_record(error.message or "")
    return named


def _indexes(payload: bytes) -> tuple[int, ...]:
    """The indexes of a payload, if it is Protobuf's; none if they are wrong."""
    try:
        indexes, _ = message_indexes(payload[:_INDEXES_BYTES])
    except ValueMismatch:
        return ()
    return indexes


def _uses(
    record: Record, topic: str, config: TopicConfig
) -> Iterator[tuple[SchemaUse, bytes] | str]:
    """The schemas that a record names, with the payload, or the reason to refuse a part without."""
    if config.confluent_key_schema_validation and record.key is not None:
        strategy = config.confluent_key_subject_name_strategy
        found = framed(record.key, KEY_SCHEMA_ID, record.headers)
        yield (
            _no_schema("key")
            if found is None
            else (SchemaUse(found.reference, topic, True, strategy), found.payload)
        )
    if config.confluent_value_schema_validation and record.value is not None:
        strategy = config.confluent_value_subject_name_strategy
        found = framed(record.value, VALUE_SCHEMA_ID, record.headers)
        yield (
            _no_schema("value")
            if found is None
            else (SchemaUse(found.reference, topic, False, strategy), found.payload)
        )


def _no_schema(part: str) -> str:
    return (
        f"The {part} has no schema id, neither in its first bytes nor in a header, but the topic "
        f"accepts {part}s with registered schemas only"
    )

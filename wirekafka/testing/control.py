"""The actions of the control port on a broker under test: requests with JSON bodies."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from wirekafka.client.client import CliError
from wirekafka.testing.faults import Rule, State
from wirekafka.testing.groups import Group
from wirekafka.testing.hooks.traffic import Traffic
from wirekafka.testing.records import Recordlike, StoredRecord
from wirekafka.testing.share_locks import InFlightRecord

if TYPE_CHECKING:
    from wirekafka.registry.faults import RegistryFault
    from wirekafka.testing.registry.schemas import KeyAndValue, Schemas

Actions = dict[tuple[str, str], Callable[[], Any]]
"""The actions, by method and path."""

_KINDS = ("fail", "delay", "drop", "hold", "throttle")
_STATES = ("refuse_connections", "disk_full", "hold_assignment")
_OF_REGISTRY = {"fail_registry": "fail", "delay_registry": "delay"}
"""Kinds of faults of a schema registry, and the methods of `Schemas` that begin them."""


class ControlledClock(Protocol):
    """The clock of a broker under test; `wirekafka.testing.broker.Clock` implements it."""

    @property
    def now_ms(self) -> int: ...
    def advance(
        self, *, seconds: float = ..., minutes: float = ..., hours: float = ..., days: float = ...
    ) -> None: ...
    def freeze(self, at_ms: float | None = ...) -> object: ...
    def thaw(self) -> None: ...


class Controlled(Protocol):
    """The object that a control port controls: a `wirekafka.Broker` or `wirekafka.Cluster`.

    The methods of `Faults` that start a rule or a state are looked up by name.
    """

    requests: Traffic

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def clock(self) -> ControlledClock: ...
    def topics(self) -> dict[str, int]: ...
    def create_topic(
        self,
        name: str,
        partitions: int = ...,
        config: Mapping[str, object] | None = ...,
        *,
        replication_factor: int = ...,
        replicas: Sequence[Sequence[int]] = ...,
        **options: object,
    ) -> None: ...
    def produce(self, topic: str, given: Iterable[Recordlike]) -> list[int]: ...
    def records(self, topic: str, partition: int | None = ...) -> Sequence[StoredRecord]: ...
    def groups(self) -> Sequence[Group]: ...
    def in_flight(self, group: str) -> Sequence[InFlightRecord]: ...
    def expire_locks(
        self, group: str, *, topic: str | None = ..., partition: int | None = ...
    ) -> None: ...
    def committed(self, group: str) -> Mapping[tuple[str, int], int]: ...
    def reset(self) -> None: ...
    def drop_connections(self) -> None: ...
    def move_coordinator(
        self, *, group: str | None = ..., transactional_id: str | None = ..., seconds: float = ...
    ) -> None: ...
    def expire_member(
        self, group: str, *, client_id: str | None = ..., member_id: str | None = ...
    ) -> None: ...
    def fence_producer(self, transactional_id: str) -> None: ...


class ControlledBroker(Controlled, Protocol):
    """A single broker under test."""

    def crash(self) -> None: ...
    def restart(self) -> None: ...


class Control:
    """Answers requests about a broker, or about all brokers of a cluster."""

    def __init__(self, controlled: Controlled):
        self._controlled = controlled
        self._rules: dict[int, Rule | State | RegistryFault] = {}
        self._serial = 0
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """The JSON value of the response to a request.

        Raises LookupError for an unknown path, ValueError for a bad body.
        """
        words = path.strip("/").split("/")
        if len(words) >= 2 and words[0] == "rules" and words[1].isdigit():
            return self._of_rule(method, int(words[1]), words[2:])
        actions = self.actions(body)
        action = actions.get((method, "/".join(words)))
        if action is None:
            known = ", ".join(f"{verb} /{name}" for verb, name in actions)
            raise LookupError(f"no {method} /{'/'.join(words)} here; there are {known}")
        return action()

    def actions(self, body: dict[str, Any]) -> Actions:
        """The actions with this body."""
        broker = self._controlled
        return {
            ("GET", ""): lambda: {"bootstrap_servers": broker.bootstrap_servers},
            ("POST", "rules"): lambda: self._add(body),
            ("DELETE", "rules"): self.remove_rules,
            ("GET", "requests"): lambda: [_exchange(each) for each in broker.requests.of(**body)],
            ("DELETE", "requests"): broker.requests.clear,
            ("GET", "topics"): broker.topics,
            ("POST", "topics"): lambda: broker.create_topic(**body),
            ("GET", "records"): lambda: self._records(**body),
            ("POST", "records"): lambda: self._produce(**body),
            ("GET", "groups"): lambda: [_group(each) for each in broker.groups()],
            ("GET", "in-flight"): lambda: [asdict(each) for each in broker.in_flight(**body)],
            ("GET", "committed"): lambda: self._committed(**body),
            ("POST", "clock"): lambda: self._set_clock(body),
            ("GET", "clock"): lambda: {"now_ms": broker.clock.now_ms},
            ("POST", "reset"): self._reset,
            ("POST", "drop-connections"): broker.drop_connections,
            ("POST", "move-coordinator"): lambda: broker.move_coordinator(**body),
            ("POST", "expire-member"): lambda: broker.expire_member(**body),
            ("POST", "expire-locks"): lambda: broker.expire_locks(**body),
            ("POST", "fence-producer"): lambda: broker.fence_producer(**body),
        }

    def _add(self, body: dict[str, Any]) -> Any:
        words = dict(body)
        kind = words.pop("kind", None)
        if kind not in (*_KINDS, *_STATES):
            raise ValueError(f"kind={kind!r}: say one of {', '.join((*_KINDS, *_STATES))}")
        return self._began(getattr(self._controlled, kind)(**words))

    def _began(self, rule: Rule | State | RegistryFault) -> Any:
        with self._lock:
            self._serial += 1
            self._rules[self._serial] = rule
            return {"id": self._serial}

    def _of_rule(self, method: str, number: int, rest: list[str]) -> Any:
        rule = self._rules.get(number)
        if rule is None:
            raise LookupError(f"there is no rule {number}")
        if (method, rest) == ("POST", ["release"]) and isinstance(rule, Rule):
            rule.release()
        elif (method, rest) == ("DELETE", []):
            rule.remove()
        elif (method, rest) != ("GET", []):
            raise LookupError(f"for a rule there are GET, DELETE, and POST /rules/{number}/release")
        status = {"id": number, "rule": repr(rule)}
        if isinstance(rule, State):
            return status
        status["hits"] = rule.hits
        return status | ({"waiting": rule.waiting} if isinstance(rule, Rule) else {})

    def remove_rules(self) -> None:
        """End all rules and states that were begun here."""
        for rule in self._rules.values():
            rule.remove()
        self._rules.clear()

    def _reset(self) -> None:
        self.remove_rules()
        self._controlled.reset()

    def _records(self, topic: str, partition: str | None = None) -> Any:
        stored = self._controlled.records(topic, None if partition is None else int(partition))
        return [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp_ms": each.timestamp_ms,
                "key": _text(each.key),
                "value": _text(each.value),
                "transaction": each.transaction,
                "headers": [[name, _text(value)] for name, value in each.headers],
            }
            for each in stored
        ]

    def _produce(self, topic: str, records: list[Any]) -> Any:
        return self._controlled.produce(
            topic, [tuple(each) if isinstance(each, list) else each for each in records]
        )

    def _committed(self, group: str) -> Any:
        return [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in self._controlled.committed(group).items()
        ]

    def _set_clock(self, body: dict[str, Any]) -> Any:
        clock = self._controlled.clock
        words = dict(body)
        match words.pop("do", "advance"):
            case "advance":
                clock.advance(**words)
            case "freeze":
                clock.freeze(**words)
            case "thaw":
                clock.thaw()
            case other:
                raise ValueError(f"do={other!r}: say advance, freeze or thaw")
        return {"now_ms": clock.now_ms}


class BrokerControl(Control):
    """Answers requests about a broker, and about its schema registry if it has one."""

    def __init__(self, broker: ControlledBroker, schemas: Schemas | None = None):
        super().__init__(broker)
        self._broker = broker
        self._schemas = schemas

    def actions(self, body: dict[str, Any]) -> Actions:
        found = super().actions(body) | {
            ("POST", "crash"): self._broker.crash,
            ("POST", "restart"): self._broker.restart,
        }
        if self._schemas is None:
            return found
        return found | self._of_registry(self._schemas, body)

    def _of_registry(self, schemas: Schemas, body: dict[str, Any]) -> Actions:
        found: Actions = {
            ("GET", ""): lambda: {
                "bootstrap_servers": self._broker.bootstrap_servers,
                "schema_registry_url": schemas.registry.url,
            },
            ("POST", "schemas"): lambda: {"id": _register(schemas, **body)},
            ("GET", "decoded"): lambda: self._decoded(schemas, **body),
        }
        if (kind := body.get("kind")) in _OF_REGISTRY:
            words = {name: value for name, value in body.items() if name != "kind"}
            begin = getattr(schemas, _OF_REGISTRY[kind])
            found["POST", "rules"] = lambda: self._began(begin(**words))
        return found

    def _decoded(self, schemas: Schemas, topic: str, partition: str | None = None) -> Any:
        stored = self._broker.records(topic, None if partition is None else int(partition))
        return [
            {"partition": each.partition, "offset": each.offset, **_values(schemas, each)}
            for each in stored
        ]


def _register(schemas: Schemas, **words: Any) -> int:
    words["references"] = [tuple(each) for each in words.get("references", ())]
    try:
        return schemas.register(**words)
    except CliError as error:
        raise ValueError(str(error)) from None


def _values(schemas: Schemas, record: KeyAndValue) -> dict[str, Any]:
    """The decoded key and value of a record; parts without a schema as `_text` shows them."""
    decoded = schemas.decoded(record)
    return {
        name: _text(part) if part is None or isinstance(part, bytes) else part
        for name, part in (("key", decoded.key), ("value", decoded.value))
    }


def _exchange(exchange: Any) -> dict[str, Any]:
    return {
        "number": exchange.number,
        "at_ms": exchange.at_ms,
        "api": exchange.api,
        "version": exchange.version,
        "client_id": exchange.client_id,
        "topics": sorted({topic for topic, _ in exchange.subjects.partitions}),
        "groups": sorted(exchange.subjects.groups),
        "errors": [error.name for error in exchange.errors],
        "is_done": exchange.is_done,
        "request": repr(exchange.request),
        "response": repr(exchange.response),
    }


def _group(group: Group) -> dict[str, Any]:
    return {**asdict(group), "members": [asdict(member) for member in group.members]}


def _text(data: bytes | None) -> Any:
    """UTF-8 text, or {"base64": ...} for other bytes."""
    try:
        return data if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}

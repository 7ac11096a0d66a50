"""Answers as plain data that is the same whenever a broker answers the same.

Names stand for what differs between two runs: ids that a broker chooses, its nodes, the time.
Fields with their default value are left out, so that versions without them read the same.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from wirekafka.codec import batch as layout
from wirekafka.codec.compression import Codec
from wirekafka.codec.message import Message
from wirekafka.codec.record import decode_records
from wirekafka.codec.schema import Field
from wirekafka.errors import KafkaError, error_name

Plain: TypeAlias = dict[str, "Plain"] | list["Plain"] | str | int | float | bool | None
"""What JSON has."""

VARYING = frozenset(
    {
        *("throttle_time_ms", "finalized_features_epoch", "last_caught_up_timestamp"),
        *("replica_directory_id", "directory_id", "log_dir", "total_bytes", "usable_bytes"),
        *("partition_size", "size", "last_timestamp", "last_fetch_timestamp", "offset_lag"),
        "mechanisms",
    }
)
"""Fields that two brokers, or two runs of a broker, fill in as they like."""

_NODES = frozenset(
    {
        *("leader_id", "node_id", "broker_id", "controller_id", "leader", "replica_nodes"),
        *("isr_nodes", "offline_replicas", "replicas", "isr", "preferred_read_replica"),
        *("replica_id", "adding_replicas", "removing_replicas", "coordinator_id"),
        *("eligible_leader_replicas", "last_known_elr"),
    }
)
_LISTS_OF_NODES = frozenset(
    {"brokers", "nodes", "node_endpoints", "replica_nodes", "isr_nodes", "replicas", "isr"}
)
"""Lists that have an element for each node of a cluster; equal elements are listed once."""
_RANDOM_IDS = frozenset({"member_id", "session_id", "producer_id", "token_id", "hmac"})
_NAMES_OF_TOPICS = ("name", "topic", "topic_name")
_ID_OF = "id of "
_UUID = re.compile(r"[\w.-]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LONG_NUMBER = re.compile(r"-?\b[0-9]{13,}\b")
"""A time in a text for people."""
_REFUSED = re.compile(r"^Request .* (needs \w+ permission\.)$", re.DOTALL)
"""A refusal that shows the whole request and its connection."""
_UNKNOWN_ID = bytes(range(1, 17))
_DAY_MS = 86_400_000
_LONGEST_TEXT = 48
_MARKER_BYTES = 6
"""The value of the marker of a transaction: its version and the epoch of the coordinator."""


class Names:
    """Names of the values that differ between runs, given in the order in which they appear."""

    def __init__(
        self,
        texts: dict[str, str],
        nodes: Iterable[int],
        ports: Iterable[int],
        hosts: Iterable[str] = (),
    ) -> None:
        """`texts` are names of parts of strings, such as prefixes and addresses."""
        self.texts = texts
        self.ids: dict[bytes, str] = {}
        """The names of topic ids."""
        self._nodes, self._ports, self._hosts = frozenset(nodes), frozenset(ports), frozenset(hosts)
        self._random: dict[str, dict[Any, str]] = {}
        self._now_ms = time.time() * 1000

    def of(self, field: str, value: Any) -> Any:
        """The name of a scalar in a field, or the scalar."""
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return self._of_number(field, value)
        if isinstance(value, str):
            return self._of_text(field, value)
        return value

    def is_broker(self, value: Any) -> bool:
        """Whether a value is the number of a broker."""
        return isinstance(value, int) and value in self._nodes

    def numbered(self, kind: str, value: Any) -> str:
        """The name of a random value: its kind with a number."""
        known = self._random.setdefault(kind, {})
        return known.setdefault(value, f"{kind} {len(known) + 1}")

    def of_id(self, value: bytes) -> str:
        """The name of a topic id or of another UUID."""
        if not any(value):
            return "no id"
        if value == _UNKNOWN_ID:
            return "an unknown id"
        return self.ids.get(value, "an id")

    def _of_number(self, field: str, value: int) -> Any:
        if field in _NODES and value in self._nodes:
            return "a broker"
        if field == "port" and value in self._ports:
            return "a port"
        if (field in _RANDOM_IDS and value > 0) or (field == "producer_id" and value == 0):
            return self.numbered(field.removesuffix("_id"), value)
        if abs(value - self._now_ms) < 8 * _DAY_MS:
            return "about now"
        return value

    def _of_text(self, field: str, value: str) -> str:
        if field == "host" and value in self._hosts:
            return "a host"
        if field == "client_host" and value.startswith("/"):
            return "/a host"
        for text, name in self.texts.items():
            value = value.replace(text, name)
        if field in _RANDOM_IDS and value in self._random.get("member", {}):
            return self.numbered("member", value)
        if value == "*":
            # Where it is expected, it would stand for any value.
            return "an asterisk"
        value = _REFUSED.sub(r"\1", value)
        value = _LONG_NUMBER.sub("a long number", value)
        return _UUID.sub(lambda match: self.numbered("member", match[0]), value)


def plain(value: Any, names: Names, field: str = "") -> Plain:
    """A message, a part of one or a value in plain form; `field` is the field that has it."""
    if isinstance(value, list | tuple):
        return _list([plain(each, names, field) for each in value], field)
    if hasattr(value, "fields") and not isinstance(value, type):
        return _message(value, names)
    if isinstance(value, dict):
        return {str(key): plain(each, names, str(key)) for key, each in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value), names, field)
    named: Plain = names.of(field, value)
    return named


def _message(message: Message, names: Names) -> dict[str, Plain]:
    shown = {
        field.name: _field(field, getattr(message, field.name), names)
        for field in message.fields
        if field.name not in VARYING
        and (
            not _is_default(field, getattr(message, field.name))
            or _is_broker_zero(field, message, names)
            or _is_producer(field, message)
        )
    }
    return _with_name({name: each for name, each in shown.items() if each != {}}, message)


def _with_name(shown: dict[str, Plain], message: Message) -> dict[str, Plain]:
    """The topic by its name where a version has its id: versions with either read the same."""
    named = next((each.name for each in message.fields if each.name in _NAMES_OF_TOPICS), None)
    id = shown.get("topic_id")
    if named is None or named in shown or not isinstance(id, str) or not id.startswith(_ID_OF):
        return shown
    return {named if name == "topic_id" else name: each for name, each in shown.items()} | {
        named: id.removeprefix(_ID_OF)
    }


def _is_producer(field: Field, message: Message) -> bool:
    """Whether a field has the id of a producer, which may be 0, as a default value may."""
    value: Any = getattr(message, field.name)
    return field.name == "producer_id" and value == 0 and not getattr(message, "error_code", 0)


def _is_default(field: Field, value: Any) -> bool:
    """Whether a field says nothing, as fields do that a version does not have."""
    if value is None and field.name.endswith("error_message"):
        return True
    if field.name == "coordinator_epoch" and value >= 0:
        return True  # It rises with each restart of the coordinator.
    return bool(field.part is None and value == field.default) or value == [] == field.default


def _is_broker_zero(field: Field, message: Message, names: Names) -> bool:
    """Whether a field with its default names the broker 0: other fields of its versions are set.

    Beside an error, no broker is named.
    """
    if field.name not in _NODES or not names.is_broker(getattr(message, field.name)):
        return False
    if getattr(message, "error_code", 0):
        return False
    others = [each for each in message.fields if each.versions == field.versions]
    return any(not _is_default(each, getattr(message, each.name)) for each in others)


def _field(field: Field, value: Any, names: Names) -> Plain:
    if field.name.endswith("error_code") and isinstance(value, int):
        return error_name(value)
    if field.kind == "16s":
        if field.is_array:
            return _list([names.of_id(each) for each in value], field.name)
        return names.of_id(value)
    if field.kind == "records" and value is not None:
        return records(bytes(value), names)
    return plain(value, names, field.name)


def _list(elements: list[Plain], field: str) -> list[Plain]:
    """In an order of their own: Kafka promises none."""
    sorted_elements = sorted(elements, key=lambda each: json.dumps(each, sort_keys=True))
    if field not in _LISTS_OF_NODES:
        return sorted_elements
    return [each for at, each in enumerate(sorted_elements) if each not in sorted_elements[:at]]


def _bytes(value: bytes, names: Names, field: str) -> str:
    text = value.decode("latin-1")
    if field in _RANDOM_IDS and text not in names.texts:
        return names.numbered(field.removesuffix("_id"), value)
    for known, name in names.texts.items():
        text = text.replace(known, name)
    return shortened(text) if text.isprintable() else f"0x{shortened(value.hex())}"


def records(data: bytes, names: Names) -> list[Plain]:
    """The batches of a Produce request or a Fetch response, in their order."""
    found: list[Plain] = []
    at = 0
    try:
        for start, header in layout.batches(data):
            at = start + header.size_bytes
            found.append(_batch(data[start:at], header, names))
    except KafkaError as error:
        return [*found, f"no batch: {error.message}"]
    if at < len(data):
        found.append("a part of a batch")
    return found


def _batch(data: bytes, header: layout.BatchHeader, names: Names) -> Plain:
    shown: dict[str, Plain] = {
        "offsets": f"{header.base_offset}-{header.end_offset - 1}",
        "magic": header.magic,
        "time": names.of("", header.max_timestamp),
    }
    if header.leader_epoch:
        shown["leader_epoch"] = header.leader_epoch
    if header.attributes:
        shown["attributes"] = _attributes(header)
    if header.has_producer_id:
        producer = names.of("producer_id", header.producer_id)
        shown["producer"] = f"{producer} epoch {header.producer_epoch} at {header.base_sequence}"
    if not layout.is_intact(data):
        return {**shown, "crc": "wrong"}
    try:
        shown["records"] = [
            f"{_text(each.key, names)}: {_value(header, each.value, names)}"
            for each in decode_records(data)
        ]
    except (KafkaError, ValueError) as error:
        shown["records"] = f"cannot be decoded: {type(error).__name__}"
    return shown


def _value(header: layout.BatchHeader, value: bytes | None, names: Names) -> str:
    """A record's value; of a marker, its version, as the coordinator has an epoch of its own."""
    if header.is_control and value is not None and len(value) == _MARKER_BYTES:
        return f"0x{value[:2].hex()} and an epoch"
    return _text(value, names)


def _attributes(header: layout.BatchHeader) -> str:
    known = [Codec(header.compression).name.lower()] if 0 < header.compression < 5 else []
    known += ["transactional"] if header.is_transactional else []
    known += ["control"] if header.is_control else []
    known += ["log append time"] if header.timestamp_type else []
    return " ".join(known) or f"{header.attributes:#x}"


def _text(value: bytes | None, names: Names) -> str:
    return "null" if value is None else _bytes(value, names, "")


def shortened(text: str) -> str:
    """The text, its middle left out if it is long."""
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT // 2]}...{len(text)} characters"


def paths(value: Plain, at: Sequence[str] = ()) -> Iterable[tuple[str, Plain]]:
    """Each scalar of plain data with where it is."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from paths(each, (*at, key))
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from paths(each, (*at[:-1], f"{at[-1] if at else ''}[{number}]"))
    else:
        yield ".".join(at), value

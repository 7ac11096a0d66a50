"""The control port: faults, clock and recorded traffic over HTTP, for tests in any language."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from wirekafka.config.address import Address
from wirekafka.errors import KafkaError
from wirekafka.testing.faults import Rule, State
from wirekafka.testing.groups import Group
from wirekafka.testing.records import Recordlike, StoredRecord
from wirekafka.testing.share_locks import InFlightRecord
from wirekafka.testing.traffic import Traffic

_MOST_BYTES = 1 << 20
_KINDS = ("fail", "delay", "drop", "hold", "throttle")
_STATES = ("refuse_connections", "disk_full", "hold_assignment")


class ControlledClock(Protocol):
    """The clock of a broker under test; `wirekafka.testing.broker.Clock` implements it."""

    @property
    def now_ms(self) -> int: ...
    def advance(
        self, *, seconds: float = ..., minutes: float = ..., hours: float = ..., days: float = ...
    ) -> None: ...
    def freeze(self, at_ms: float | None = ...) -> object: ...
    def thaw(self) -> None: ...


class ControlledBroker(Protocol):
    """What the control port needs of a broker under test; `wirekafka.Broker` implements it.

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
    def crash(self) -> None: ...
    def restart(self) -> None: ...
    def reset(self) -> None: ...
    def drop_connections(self) -> None: ...
    def move_coordinator(
        self, *, group: str | None = ..., transactional_id: str | None = ..., seconds: float = ...
    ) -> None: ...
    def expire_member(
        self, group: str, *, client_id: str | None = ..., member_id: str | None = ...
    ) -> None: ...
    def fence_producer(self, transactional_id: str) -> None: ...


class ControlPort:
    """An HTTP server that controls a broker under test, on the loopback address by default.

    It has no authentication, so it is started only on request.
    """

    def __init__(self, broker: ControlledBroker, host: str = "127.0.0.1", port: int = 0):
        self._broker = broker
        self._rules: dict[int, Rule | State] = {}
        self._serial = 0
        self._lock = threading.Lock()
        control = self

        class Handler(_Handler):
            answer = control.answer

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            reason = f"{error.strerror}; port=0 takes a free port"
            raise OSError(f"cannot listen at {Address(host, port)}: {reason}") from error
        self._server.daemon_threads = True
        self.url = f"http://{Address(host, self._server.server_port)}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="wirekafka-control", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """The JSON value of the response to a request.

        Raises LookupError for an unknown path, ValueError for a bad body.
        """
        broker = self._broker
        words = path.strip("/").split("/")
        actions: dict[tuple[str, str], Callable[[], Any]] = {
            ("GET", ""): lambda: {"bootstrap_servers": broker.bootstrap_servers},
            ("POST", "rules"): lambda: self._add(body),
            ("DELETE", "rules"): self._remove_all,
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
            ("POST", "crash"): broker.crash,
            ("POST", "restart"): broker.restart,
            ("POST", "drop-connections"): broker.drop_connections,
            ("POST", "move-coordinator"): lambda: broker.move_coordinator(**body),
            ("POST", "expire-member"): lambda: broker.expire_member(**body),
            ("POST", "expire-locks"): lambda: broker.expire_locks(**body),
            ("POST", "fence-producer"): lambda: broker.fence_producer(**body),
        }
        if len(words) >= 2 and words[0] == "rules" and words[1].isdigit():
            return self._of_rule(method, int(words[1]), words[2:])
        action = actions.get((method, "/".join(words)))
        if action is None:
            known = ", ".join(f"{verb} /{name}" for verb, name in actions)
            raise LookupError(f"no {method} /{'/'.join(words)} here; there are {known}")
        return action()

    def _add(self, body: dict[str, Any]) -> Any:
        words = dict(body)
        kind = words.pop("kind", None)
        if kind not in (*_KINDS, *_STATES):
            raise ValueError(f"kind={kind!r}: say one of {', '.join((*_KINDS, *_STATES))}")
        rule: Rule | State = getattr(self._broker, kind)(**words)
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
        return status | {"hits": rule.hits, "waiting": rule.waiting}

    def _remove_all(self) -> None:
        for rule in self._rules.values():
            rule.remove()
        self._rules.clear()

    def _reset(self) -> None:
        self._remove_all()
        self._broker.reset()

    def _records(self, topic: str, partition: str | None = None) -> Any:
        stored = self._broker.records(topic, None if partition is None else int(partition))
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
        return self._broker.produce(
            topic, [tuple(each) if isinstance(each, list) else each for each in records]
        )

    def _committed(self, group: str) -> Any:
        return [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in self._broker.committed(group).items()
        ]

    def _set_clock(self, body: dict[str, Any]) -> Any:
        clock = self._broker.clock
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


class _Handler(BaseHTTPRequestHandler):
    answer: Callable[[str, str, dict[str, Any]], Any]

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _serve(self, method: str) -> None:
        url = urlsplit(self.path)
        if "Origin" in self.headers:
            # A web page in a browser must not control a broker on the loopback address.
            self._send(403, {"error": "not for browsers"})
            return
        try:
            body = dict(parse_qsl(url.query)) | self._body()
            self._send(200, type(self).answer(method, url.path, body))
        except LookupError as error:
            self._send(404, {"error": str(error)})
        except (ValueError, TypeError, KafkaError, RuntimeError, OSError) as error:
            self._send(400, {"error": str(error)})

    def _body(self) -> dict[str, Any]:
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MOST_BYTES:
            raise ValueError(f"a body of {size} bytes is too large")
        body = json.loads(self.rfile.read(size) or b"{}")
        if not isinstance(body, dict):
            raise ValueError("the body is to be a JSON object")
        return body

    def _send(self, status: int, answer: Any) -> None:
        data = json.dumps(answer if answer is not None else {}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        # Without this header, the JDK's client tries to reuse an HTTP/1.0 connection.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)


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

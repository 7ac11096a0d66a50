"""What a case plays on: requests to the right broker, topics of its own, names for its values."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from wirekafka.codec.message import Message, Request
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.conformance.case import Case
from wirekafka.conformance.expectation import Answers
from wirekafka.conformance.plain import Names, plain
from wirekafka.conformance.target import ClusterUnderTest
from wirekafka.conformance.wire import Answer, Wire, WireExchange
from wirekafka.errors import Error
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.protocol.produce import ProduceRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
UNKNOWN_ID = bytes(range(1, 17))
"""The id of no topic."""
TIME_MS = 1_700_000_000_000
"""The time of the first record of each batch."""
ANSWER_S = 10.0
_PATIENCE_S = 30.0
_POLL_S = 0.02
_FIRST = "first"
_OF_TRANSACTIONS = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions"}
)


class Unsupported(Exception):
    """An API that a case needs is not advertised in the version that it needs."""


class PreparationFailed(Exception):
    """The broker did not do what a case needs before its first question."""


class Question:
    """A request that was sent, whose answer may come later."""

    def __init__(self, take: Callable[[float], WireExchange]) -> None:
        self._take = take

    def answer(self, wait_s: float = ANSWER_S) -> Any:
        """The answer, which is compared unless its request only prepares something."""
        return self._take(wait_s).answer


class Stage:
    """One case in one version: `ask` compares the answer, `do` prepares something."""

    def __init__(
        self, target: ClusterUnderTest, wires: Wires, case: Case, version: int, number: int
    ) -> None:
        self.target, self.case, self.version = target, case, version
        self.scope = f"{target.prefix}-{number}"
        """The beginning of every name that this case makes."""
        self.exchanges: list[tuple[str, WireExchange]] = []
        """The steps that are compared, by name."""
        self.ids = dict(target.ids)
        """The ids of topics by name."""
        self._wires = wires
        self._seen: dict[str, Any] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._texts = {self.scope: "P", target.prefix: "P"}
        self._logins: dict[str, ClientConfig | None] = {}

    # Names

    @property
    def topic(self) -> str:
        """A shared topic with two partitions and three records in the first, to be read only."""
        return f"{self.target.prefix}-shared"

    @property
    def compacted(self) -> str:
        """A shared topic that is compacted and empty."""
        return f"{self.target.prefix}-compacted"

    @property
    def missing(self) -> str:
        """The name of a topic that does not exist."""
        return f"{self.target.prefix}-missing"

    def name(self, text: str = "") -> str:
        """A name that no other case uses, for a group, a topic or anything else."""
        return f"{self.scope}-{text}" if text else self.scope

    def call(self, value: str, name: str) -> None:
        """Show a text of this run by a name of its own in all answers."""
        others = {text: known for text, known in self._texts.items() if text != value}
        self._texts = {value: name, **others}

    # Requests

    def ask(
        self,
        request: Request,
        version: int | None = None,
        *,
        by: str = _FIRST,
        at: int | None = None,
        wait_s: float = ANSWER_S,
        frame: bytes = b"",
    ) -> Any:
        """Send a request whose answer is compared; returns the response, or a text without one.

        Without a version, the request must be of the case's API, and has the version in which
        the case is played. `by` names the connection. `at` is the broker; by default it is the
        coordinator of the group or the transaction, or else the leader of the shared topics.
        `frame` are the bytes to send if the codec would write others, size included.
        """
        return self.send(request, version, by=by, at=at, frame=frame).answer(wait_s)

    def send(
        self,
        request: Request,
        version: int | None = None,
        *,
        by: str = _FIRST,
        at: int | None = None,
        frame: bytes = b"",
        is_compared: bool = True,
    ) -> Question:
        """Send a request as `ask` does, and wait for its answer later.

        A request that only prepares something is not compared; its version is chosen as `do` does.
        """
        used = self._version(request, version, or_older=not is_compared)
        wire = self._wire(request, by, at)
        frame = frame or wire.encode(request, used)
        name = self._step(request, used)
        wire.put(frame)

        def take(wait_s: float) -> WireExchange:
            longest_s = self.target.limits.of(type(request).__name__, wait_s)
            exchange = wire.take(request, used, frame, longest_s)
            if is_compared:
                self.exchanges.append((name, exchange))
                self._seen[name] = exchange.answer
                if exchange.extra_bytes:
                    self._seen[f"{name}, bytes after it"] = exchange.extra_bytes
            return exchange

        if is_compared:
            self._seen[name] = None
        return Question(take)

    def do(
        self,
        request: Request,
        version: int | None = None,
        *,
        by: str = _FIRST,
        at: int | None = None,
    ) -> Any:
        """Send a request that prepares something or looks at it; its answer is not compared.

        Of an API that is not the case's own, the newest advertised version up to `version`.
        Raises Unsupported, and PreparationFailed without a response.
        """
        used = self._version(request, version, or_older=True)
        kind = type(request).__name__
        longest_s = self.target.limits.of(kind, _PATIENCE_S)
        answer: Answer = self._wire(request, by, at).ask(request, used, longest_s).answer
        if isinstance(answer, str):
            self.target.limits.miss(kind)
            raise PreparationFailed(f"{type(request).__name__} v{used}: {answer}")
        return answer

    def exchange(
        self, *pieces: bytes, by: str = "raw", wait_s: float = 3, logs_in: bool = True
    ) -> Any:
        """Send bytes, size included; returns the next response without its size, or a text.

        What is compared is only whether there is one. Each of several pieces is sent by itself.
        """
        wire = self.put(*pieces, by=by, logs_in=logs_in)
        received = wire.take_frame(wait_s)
        answer = received if isinstance(received, str) else "an answer"
        name = f"{len(self._seen) + 1} bytes"
        data = b"" if isinstance(received, str) else received
        self.exchanges.append((name, WireExchange("bytes", None, b"".join(pieces), data, answer)))
        self._seen[name] = answer
        return received

    def put(self, *pieces: bytes, by: str = "raw", logs_in: bool = True) -> Wire:
        """Send bytes, each piece by itself, without waiting for an answer."""
        wire = self._wires.get(self.target.nodes[self.target.home], by, logs_in=logs_in)
        for each in pieces:
            wire.put(each)
        return wire

    def note(self, what: str, value: Any) -> None:
        """Compare a value that the case has made of answers: a message, parts of it, numbers."""
        self._seen[f"{len(self._seen) + 1} {what}"] = value

    def log_in(self, by: str, config: ClientConfig | None) -> None:
        """Have the connections of a name log in with other options, or with None not at all."""
        self._wires.close(by)
        self._logins[by] = config

    def close(self, by: str = _FIRST) -> None:
        """Close a connection; the next request opens another."""
        self._wires.close(by)

    def until(self, is_so: Callable[[], Any], what: str, patience_s: float = _PATIENCE_S) -> Any:
        """Wait until a function returns something true, and return it. Raises PreparationFailed."""
        words = what.split()
        kind = " ".join(each for each in words if not each.startswith(self.target.prefix))
        patience_s = self.target.limits.of(kind, patience_s)
        deadline = time.monotonic() + patience_s
        while not (found := is_so()):
            if time.monotonic() > deadline:
                self.target.limits.miss(kind)
                raise PreparationFailed(f"not within {patience_s:.0f} s: {what}")
            time.sleep(_POLL_S)
        return found

    # Preparations

    def create(self, text: str = "", partitions: int = 1, **configs: str) -> str:
        """Create a topic of this case on the home broker, wait for its leader; returns its name.

        Names of configurations have underscores. Records do not grow too old by default.
        """
        name = self.name(text)
        self._make(name, partitions, {"retention_ms": "-1", **configs})
        return name

    def shared(
        self, text: str, fill: Callable[[Stage, str], None], partitions: int = 1, **configs: str
    ) -> str:
        """A topic that cases only read, which the first of them creates and fills; its name."""
        name = f"{self.target.prefix}-{text}"
        with self.target.making:
            if name not in self.target.ids:
                self._make(name, partitions, {"retention_ms": "-1", **configs})
                fill(self, name)
                self.target.ids[name] = self.ids[name]
        self.ids[name] = self.target.ids[name]
        return name

    def make_shared(self) -> None:
        """Create the shared topics, and wait until there are coordinators."""
        self._make(self.topic, 2, {"retention_ms": "-1"})
        if self.target.newest(CreateTopicsRequest, 7) is not None:
            self._make(self.compacted, 1, {"cleanup_policy": "compact"})
        self.target.ids = dict(self.ids)
        self.produce(self.topic, batch())
        self.until(lambda: self._find(GROUP, self.name()), "a coordinator of groups")
        self.until(lambda: self._find(TRANSACTION, self.name()), "a coordinator of transactions")
        for node in self.target.nodes:
            self.until(partial(self._has_producer_ids, node), "producer ids")

    def delete(self, name: str) -> None:
        """Delete a topic."""
        state = DeleteTopicsRequest.DeleteTopicState
        request = DeleteTopicsRequest(
            topic_names=[name], topics=[state(name=name)], timeout_ms=20_000
        )
        self.do(request, 6)

    def produce(self, name: str, records: bytes, partition: int = 0) -> Any:
        """Append records, which the broker must accept; returns its answer for the partition."""
        answer = self.do(self.produce_request(name, records, partition=partition), 12)
        found = answer.responses[0].partition_responses[0]
        if found.error_code:
            raise PreparationFailed(f"Produce: {Error.of(found.error_code).name}")
        return found

    def produce_request(
        self,
        name: str,
        records: Any,
        *,
        partition: int = 0,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> ProduceRequest:
        """A Produce request for one partition."""
        topics = ProduceRequest.TopicProduceData
        data = topics.PartitionProduceData(index=partition, records=records)
        topic = topics(name=name, topic_id=self.id_of(name), partition_data=[data])
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=5000, topic_data=[topic]
        )

    def id_of(self, name: str) -> bytes:
        """The id of a topic, or of none."""
        return self.ids.get(name, UNKNOWN_ID)

    def coordinator(self, kind: int, key: str) -> int:
        """The broker that is the coordinator of a group, a transaction or a share partition."""
        if len(self.target.nodes) == 1:
            return self.target.home
        if (kind, key) not in self._coordinators:
            self._coordinators[kind, key] = self.until(
                lambda: self._find(kind, key), f"a coordinator of {key}"
            )[0]
        return self._coordinators[kind, key]

    def neighbours(self, count: int, text: str = "n") -> list[str]:
        """Names of groups of this case with the same coordinator."""
        node = self.coordinator(GROUP, self.name(f"{text}-000"))
        found: list[str] = []
        number = 0
        while len(found) < count:
            name = self.name(f"{text}-{number:03}")
            if self.coordinator(GROUP, name) == node:
                # The same in every run, whatever the coordinators of other names are.
                self.call(name, f"P-{text}-{len(found)}")
                found.append(name)
            number += 1
        return found

    # What was seen

    def names(self) -> Names:
        """The names of the values that this case has chosen or the cluster has."""
        names = Names(self._names_of_texts(), self.target.nodes, self._ports(), self._hosts())
        names.ids = {
            id: f"id of {plain(name, names)}" for name, id in self.ids.items() if id != UNKNOWN_ID
        }
        return names

    def answers(self, names: Names) -> Answers:
        """All steps in plain form."""
        return {step: plain(value, names) for step, value in self._seen.items()}

    def _names_of_texts(self) -> dict[str, str]:
        known = dict(self._texts)
        if self.target.cluster_id:
            known[self.target.cluster_id] = "the cluster"
        for address in self.target.nodes.values():
            known[str(address)] = "an address"
            known[f":{address.port}"] = ":a port"
            known[f"port {address.port}"] = "a port"
        return known

    def _ports(self) -> list[int]:
        return [each.port for each in self.target.nodes.values()]

    def _hosts(self) -> list[str]:
        return [each.host for each in self.target.nodes.values()]

    def _step(self, request: Request, version: int) -> str:
        name = type(request).__name__.removesuffix("Request")
        own = isinstance(request, self.case.request) and version == self.version
        return f"{len(self._seen) + 1} {name}" + ("" if own else f" v{version}")

    def _version(self, request: Request, version: int | None, or_older: bool = False) -> int:
        """The version to use. Raises Unsupported."""
        kind = type(request)
        if version is None:
            assert isinstance(request, self.case.request), f"{kind.__name__} needs a version"
            return self.version
        known = self.target.range_of(kind)
        used = self.target.newest(kind, version) if or_older else version
        if used is None or used not in known:
            shown = f"{known.start}-{known.stop - 1}" if known else "none"
            raise Unsupported(f"{kind.__name__} v{version} is not advertised ({shown})")
        return used

    def _wire(self, request: Request, by: str, at: int | None) -> Wire:
        node = self._responsible(request) if at is None else at
        address = self.target.nodes[node]
        if by in self._logins:
            login = self._logins[by]
            return self._wires.get(address, by, logs_in=login is not None, config=login)
        return self._wires.get(address, by)

    def _responsible(self, request: Request) -> int:
        if len(self.target.nodes) == 1 or isinstance(request, FindCoordinatorRequest):
            return self.target.home
        kind = type(request).__name__.removesuffix("Request")
        if kind in _OF_TRANSACTIONS:
            key = _first_name(
                request, "transactional_id", "v3_and_below_transactional_id"
            ) or _first_name(request, "transactional_ids")
            return self.coordinator(TRANSACTION, key) if key else self.target.home
        group = _first_name(request, "group_id", "groups_names", "group_ids", "groups")
        if group and kind not in ("ShareFetch", "ShareAcknowledge"):
            return self.coordinator(GROUP, group)
        return self.target.home

    def _find(self, kind: int, key: str) -> list[int]:
        """The coordinator, in a list: none if there is none yet."""
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        wire = self._wires.get(self.target.nodes[self.target.home], _FIRST)
        version = self.target.newest(FindCoordinatorRequest, 6 if kind == SHARE else 4)
        if version is None:
            return [self.target.home]
        answer: Any = wire.ask(request, version, _PATIENCE_S).answer
        if isinstance(answer, str):
            raise PreparationFailed(f"FindCoordinator v{version}: {answer}")
        found = answer.coordinators[0] if version >= 4 else answer
        return [] if found.error_code or found.node_id not in self.target.nodes else [found.node_id]

    def _has_producer_ids(self, node: int) -> bool:
        """Whether a broker has producer ids to give; a fresh broker asks for some first."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        if self.target.newest(InitProducerIdRequest, 4) is None:
            return True
        code: int = self.do(request, 4, at=node).error_code
        return code != Error.COORDINATOR_LOAD_IN_PROGRESS

    def _make(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        new = CreateTopicsRequest.CreatableTopic
        at_home = [
            new.CreatableReplicaAssignment(partition_index=index, broker_ids=[self.target.home])
            for index in range(partitions)
        ]
        is_placed = len(self.target.nodes) > 1
        topic = new(
            name=name,
            num_partitions=-1 if is_placed else partitions,
            replication_factor=-1 if is_placed else 1,
            assignments=at_home if is_placed else [],
            configs=[
                new.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000, validate_only=False)
        if self.target.newest(CreateTopicsRequest, 7) is None and set(configs) <= {"retention_ms"}:
            # A broker whose topics are created by being asked for.
            self.until(lambda: self._is_led(name, partitions, create=True), f"leaders of {name}")
            return
        answer = self.do(request, 7)
        if answer.topics[0].error_code:
            raise PreparationFailed(f"CreateTopics: {Error.of(answer.topics[0].error_code).name}")
        self.until(lambda: self._is_led(name, partitions), f"leaders of {name}")

    def _is_led(self, name: str, partitions: int, *, create: bool = False) -> bool:
        asked = MetadataRequest(
            topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=create
        )
        for node in self.target.nodes:
            # Coordinators on other brokers must know the topic too.
            (found,) = self.do(asked, 12, at=node).topics
            if found.error_code or len(found.partitions) < partitions:
                return False
        self.ids[name] = found.topic_id if any(found.topic_id) else UNKNOWN_ID
        # A broker may report itself as the leader shortly before it serves as one.
        topic = ListOffsetsRequest.Topic
        asked_parts = [
            topic.Partition(partition_index=index, timestamp=-1) for index in range(partitions)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[topic(name=name, partitions=asked_parts)]
        )
        answer = self.do(request, 6)
        return not any(each.error_code for each in answer.topics[0].partitions)


class Wires:
    """The connections of one worker, by broker and name; the first of each broker is kept."""

    def __init__(self, target: ClusterUnderTest) -> None:
        self._target = target
        self._open: dict[tuple[Address, str], Wire] = {}

    def get(
        self, address: Address, by: str, *, logs_in: bool = True, config: ClientConfig | None = None
    ) -> Wire:
        """A connection by its name, which logs in as the target says or with other options."""
        if (address, by) not in self._open:
            options = config or self._target.config
            self._open[address, by] = Wire(address, options, logs_in=logs_in)
        return self._open[address, by]

    def close(self, by: str) -> None:
        """Close the connections of a name."""
        for key in [each for each in self._open if each[1] == by]:
            self._open.pop(key).close()

    def close_all(self, *, except_first: bool = False) -> None:
        """Close all connections, or only the connections that no other case may use."""
        for by in {by for _, by in self._open}:
            if not (except_first and by == _FIRST):
                self.close(by)


def batch(count: int = 3, *, key: bytes | None = b"key", **options: Any) -> bytes:
    """A batch of records one second apart, the same bytes every time."""
    records = [
        Record(number, TIME_MS + 1000 * number, key, b"value %d" % number)
        for number in range(count)
    ]
    return encode_batch(records, options=BatchOptions(**options))


def _first_name(request: Message, *fields: str) -> str:
    """The first text in one of these fields: a name, or the name in the first of several parts."""
    for each in fields:
        value: Any = getattr(request, each, None)
        if isinstance(value, Sequence) and not isinstance(value, str):
            value = value[0] if value else None
        value = getattr(value, "group_id", value)
        if isinstance(value, str) and value:
            return value
    return ""

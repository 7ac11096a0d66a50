"""How a controller of the simulation serves the requests of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.simulation.replication.network import Reply
from wirekafka.errors import KafkaError
from wirekafka.log.slice import LogSlice
from wirekafka.replication.raft.messages import (
    AddVoter,
    BeginEpoch,
    ChangeAnswer,
    EndEpoch,
    EpochAnswer,
    FetchAnswer,
    FetchPosition,
    FetchSnapshot,
    RemoveVoter,
    SnapshotAnswer,
    SupportedVersions,
    UpdateVoter,
    VersionRange,
    VersionsAnswer,
    Vote,
    VoteAnswer,
)

if TYPE_CHECKING:
    from tests.simulation.quorum.controller import SimulatedController

_MAX_WAIT_MS = 500


def serve(node: SimulatedController, request: Any, reply: Reply) -> None:
    """Serve a request, and reply once the epoch and the vote in the response are durable."""
    now_ms, raft = node.process.now_ms(), node.raft

    def answer(response: Any) -> None:
        node.pump()
        raft.when_durable(lambda: reply(response))

    if isinstance(request, SupportedVersions):
        answer(VersionsAnswer(versions=VersionRange()))
        return
    if isinstance(request, FetchPosition):
        _Fetching(node, request, answer).serve()
        return
    kind: Any = ChangeAnswer
    try:
        match request:
            case Vote():
                kind = VoteAnswer
                response: Any = raft.vote(request, now_ms)
                if response.granted and not request.pre_vote:
                    raft.when_durable(lambda: node.world.voted(node, request))
            case BeginEpoch():
                kind = EpochAnswer
                response = raft.begin_epoch(request, now_ms)
            case EndEpoch():
                kind = EpochAnswer
                response = raft.end_epoch(request, now_ms)
            case FetchSnapshot():
                kind = SnapshotAnswer
                response = raft.fetched_snapshot(request, node.world.max_bytes, now_ms)
            case AddVoter():
                raft.add_voter(request, now_ms)
                response = ChangeAnswer(leadership=raft.leadership)
            case RemoveVoter():
                raft.remove_voter(request, now_ms)
                response = ChangeAnswer(leadership=raft.leadership)
            case UpdateVoter():
                raft.update_voter(request, now_ms)
                response = ChangeAnswer(leadership=raft.leadership)
    except KafkaError as error:
        response = kind(leadership=raft.leadership, error=error.error)
    answer(response)


class _Fetching:
    """A Fetch that waits for something new."""

    def __init__(self, node: SimulatedController, request: FetchPosition, answer: Reply):
        self._node = node
        self._request = request
        self._answer = answer
        self._is_over = False

    def serve(self) -> None:
        answer = self._read()
        if not self._is_empty(answer):
            self._finish(answer)
            return
        self._unwatch = self._node.raft.watch(self._changed)
        self._node.process.call_later(_MAX_WAIT_MS, lambda: self._finish(self._read()))
        self._node.pump()

    def _changed(self) -> None:
        self._node.process.call_later(0, self._look)

    def _look(self) -> None:
        if self._is_over:
            return
        answer = self._read()
        if not self._is_empty(answer):
            self._unwatch()
            self._finish(answer)

    def _finish(self, answer: FetchAnswer) -> None:
        if not self._is_over:
            self._is_over = True
            self._answer(answer)

    def _is_empty(self, answer: FetchAnswer) -> bool:
        return (
            not answer.error
            and answer.diverging is None
            and answer.snapshot is None
            and not len(answer.records)
            and answer.high_watermark <= self._request.high_watermark
        )

    def _read(self) -> FetchAnswer:
        node = self._node
        try:
            answer = node.raft.fetched(self._request, node.world.max_bytes, node.process.now_ms())
        except KafkaError as error:
            return FetchAnswer(leadership=node.raft.leadership, error=error.error)
        if isinstance(answer.records, LogSlice):
            data = b"".join(bytes(each) for each in answer.records.buffers())
            answer = replace(answer, records=data)
        return answer


def shown(message: Any) -> str:
    """A message for a trace."""
    parts = []
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if name in ("records", "data"):
            value = f"{len(value)} bytes"
        elif name == "leadership":
            value = f"{value.leader_id}@{value.epoch}"
        elif name in ("voter", "candidate", "replica"):
            value = value.id
        elif name == "preferred":
            value = [key.id for key in value]
        elif name == "error":
            if not value:
                continue
            value = value.name
        parts.append(f"{name}={value}")
    return f"{type(message).__name__}({', '.join(parts)})"

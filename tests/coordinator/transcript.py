"""Plays transcripts of group members and their coordinator, and reports where they differ.

    == the second member triggers a rebalance
    set max_size=10                     # of GroupConfig; must come first
    a -> join range topics=t            # who sends what: protocols, then options
    a <- MEMBER_ID_REQUIRED a           # every response, in order, must be listed
    3000 ms later
    broker restarts
    group is Stable
    log has generation 1 of a b         # the last group record

A member id that is given to actor `a` is called `a` in the text, the next one `a2`, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wirekafka.coordinator.groups.commands import (
    AssignorChoice,
    CommitOffsets,
    DescribedGroup,
    DescribeGroup,
    FetchAllOffsets,
    FetchedOffset,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    JoinRefused,
    Leave,
    Leaver,
    OffsetToCommit,
    Sync,
    Synced,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription

LATEST = 9


class Scenario(NamedTuple):
    title: str
    path: Path
    lines: list[tuple[int, str]]

    @property
    def settings(self) -> dict[str, int]:
        settings: dict[str, int] = {}
        for _, line in self.lines:
            if line.startswith("set "):
                for pair in line.split()[1:]:
                    name, _, value = pair.partition("=")
                    settings[name] = int(value)
        return settings


class Backend(Protocol):
    """A coordinator: the bare machine, or a live broker."""

    def send(self, actor: str, command: Any, version: int) -> None: ...
    def next_reply(self, actor: str) -> Any: ...
    def unread(self) -> list[tuple[str, Any]]: ...
    def pass_time(self, ms: int) -> None: ...
    def restart(self) -> None: ...
    def last_record(self) -> Any: ...


@dataclass
class Actor:
    name: str
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None
    protocols: tuple[str, ...] = ("range",)
    options: dict[str, str] = field(default_factory=dict)


def scenarios(folder: Path) -> Iterator[Scenario]:
    for path in sorted(folder.glob("*.txt")):
        current: Scenario | None = None
        for number, raw in enumerate(path.read_text().splitlines(), 1):
            line = raw.split("#")[0].strip()
            if line.startswith("=="):
                if current is not None:
                    yield current
                current = Scenario(line.strip("= "), path, [])
            elif line:
                assert current is not None, f"{path.name}:{number}: before the first =="
                current.lines.append((number, line))
        if current is not None:
            yield current


class Play:
    """One scenario on one coordinator."""

    def __init__(self, backend: Backend, group_id: str = "g"):
        self.backend = backend
        self.group_id = group_id
        self.actors: dict[str, Actor] = {}
        self.names: dict[str, str] = {}
        self.fresh = 0

    def run(self, scenario: Scenario) -> None:
        for number, line in scenario.lines:
            where = f"{scenario.path.name}:{number}: {line}"
            try:
                self._line(line)
            except AssertionError as error:
                raise AssertionError(f"{where}\n{error}") from None
        self._nothing_unread()

    def _line(self, line: str) -> None:
        if match := re.fullmatch(r"(\w+) <- (.*)", line):
            actor = self.actors[match[1]]
            response = self._response_text(actor, self.backend.next_reply(actor.name))
            assert response == " ".join(match[2].split()), f"but the response was: {response}"
            return
        self._nothing_unread()
        if match := re.fullmatch(r"(\w+) -> (\w+) ?(.*)", line):
            actor = self.actors.setdefault(match[1], Actor(match[1]))
            self._ask(actor, match[2], match[3].split())
        elif match := re.fullmatch(r"(\d+) ms later", line):
            self.backend.pass_time(int(match[1]))
        elif line == "broker restarts":
            self.backend.restart()
        elif match := re.fullmatch(r"group is (\w+)", line):
            state = self._group().state
            assert state == match[1], f"but is {state}"
        elif match := re.fullmatch(r"group has (.*)", line):
            has = " ".join(self._name(each.member_id) for each in self._group().members)
            assert sorted(has.split()) == sorted(match[1].split()), f"but has {has}"
        elif match := re.fullmatch(r"log has (.*)", line):
            record = self._recorded(self.backend.last_record())
            assert record in (match[1], None), f"but has {record}"
        else:
            assert line.startswith("set "), "which is not understood"

    def _nothing_unread(self) -> None:
        unread = [
            f"{name} <- {self._response_text(self.actors[name], reply)}"
            for name, reply in self.backend.unread()
            if name in self.actors
        ]
        assert not unread, f"responses that the transcript does not list: {unread}"

    def _group(self) -> Any:
        self.backend.send("_", DescribeGroup(self.group_id), 5)
        described = self.backend.next_reply("_")
        if isinstance(described, KafkaError):
            assert described.error is Error.GROUP_ID_NOT_FOUND, described
            return DescribedGroup("Dead", "", "", [])
        return described

    # Asking

    def _ask(self, actor: Actor, verb: str, words: list[str]) -> None:
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        version = int(options.pop("v", LATEST))
        command = getattr(self, f"_{verb}")(actor, plain, options)
        if verb == "join":
            known = command.instance_id is not None or bool(command.member_id)
            command = replace(
                command,
                needs_known_member_id=version >= 4 and not known,
                can_skip_assignment=version >= 9,
            )
        self.backend.send(actor.name, command, version)

    def _as(self, actor: Actor, options: dict[str, str]) -> str:
        if "as" not in options:
            return actor.member_id
        return "" if options["as"] == "-" else self._id(options["as"])

    def _id(self, name: str) -> str:
        return next((member_id for member_id, each in self.names.items() if each == name), name)

    def _join(self, actor: Actor, plain: list[str], options: dict[str, str]) -> Join:
        actor.protocols = tuple(plain) or actor.protocols
        actor.options |= {k: v for k, v in options.items() if k != "as"}
        actor.instance_id = actor.options.get("instance")
        settings = actor.options
        subscription = ConsumerProtocolSubscription(topics=settings.get("topics", "t").split(","))
        metadata = b"\0\1" + bytes(subscription.encode(1))
        self.fresh += 1
        session_ms = int(settings.get("session", "10000"))
        return Join(
            group_id=self._group_id(options),
            member_id=self._as(actor, options),
            instance_id=actor.instance_id,
            client_id=actor.name,
            client_host="/127.0.0.1",
            protocol_type=settings.get("type", "consumer"),
            protocols=tuple(
                AssignorChoice(name, metadata) for name in actor.protocols if name != "none"
            ),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=int(settings.get("rebalance", "60000")),
            fresh_id=str(self.fresh),
        )

    def _group_id(self, options: dict[str, str]) -> str:
        return "" if options.get("group") == "-" else options.get("group", self.group_id)

    def _generation(self, actor: Actor, options: dict[str, str]) -> int:
        return int(options.get("generation", actor.generation_id))

    def _sync(self, actor: Actor, plain: list[str], options: dict[str, str]) -> Sync:
        parts = {name: part for name, part in options.items() if name not in _SYNC_OPTIONS}
        return Sync(
            group_id=self._group_id(options),
            generation_id=self._generation(actor, options),
            member_id=self._as(actor, options),
            instance_id=actor.instance_id,
            protocol_type=options.get("type", "consumer"),
            protocol_name=options.get("protocol", actor.options.get("agreed")),
            assignments={self._id(name): part.encode() for name, part in parts.items()},
        )

    def _heartbeat(self, actor: Actor, plain: list[str], options: dict[str, str]) -> Heartbeat:
        return Heartbeat(
            self._group_id(options),
            self._generation(actor, options),
            self._as(actor, options),
            options.get("instance", actor.instance_id),
        )

    def _leave(self, actor: Actor, plain: list[str], options: dict[str, str]) -> Leave:
        leavers = []
        for word in plain or [actor.name]:
            name, _, instance = word.partition("i:")
            member_id = self._id(name.rstrip("/")) if name else ""
            if not plain:
                member_id, instance = self._as(actor, options), actor.instance_id or ""
            leavers.append(Leaver(member_id, instance or None))
        return Leave(self._group_id(options), leavers)

    def _commit(self, actor: Actor, plain: list[str], options: dict[str, str]) -> CommitOffsets:
        offsets = []
        for word in plain:
            match = re.fullmatch(r"(\w+)-(\d+)@(\d+)(?::(\w+))?", word)
            assert match is not None, word
            offsets.append(
                OffsetToCommit(match[1], int(match[2]), int(match[3]), metadata=match[4] or "")
            )
        return CommitOffsets(
            self._group_id(options),
            self._generation(actor, options),
            self._as(actor, options),
            offsets,
            actor.instance_id,
            int(options.get("retention", -1)),
            LATEST,
        )

    def _fetch(
        self, actor: Actor, plain: list[str], options: dict[str, str]
    ) -> FetchOffsets | FetchAllOffsets:
        if plain == ["all"]:
            return FetchAllOffsets(self.group_id)
        places = [word.rsplit("-", 1) for word in plain]
        return FetchOffsets(self.group_id, [(topic, int(index)) for topic, index in places])

    # Responses

    def _response_text(self, actor: Actor, reply: Any) -> str:
        match reply:
            case JoinRefused():
                if reply.error is Error.MEMBER_ID_REQUIRED:
                    actor.member_id = reply.member_id
                    self._give_name(actor)
                    return f"{reply.error.name} {self._name(reply.member_id)}"
                return reply.error.name
            case KafkaError():
                return reply.error.name
            case Joined():
                return self._joined_text(actor, reply)
            case Synced():
                return f"synced {reply.assignment.decode() or 'nothing'}"
            case None:
                return "ok"
            case list() if reply and isinstance(reply[0], FetchedOffset):
                return " ".join(
                    [
                        "fetched",
                        *(
                            f"{each.topic}-{each.partition}@{each.offset}"
                            + (f":{each.metadata}" if each.metadata else "")
                            + (f"!{each.error.name}" if each.error else "")
                            for each in reply
                        ),
                    ]
                )
            case list():
                return " ".join(["done", *(error.name for error in reply)])
            case _:
                return repr(reply)

    def _joined_text(self, actor: Actor, joined: Joined) -> str:
        actor.member_id = joined.member_id
        actor.generation_id = joined.generation_id
        actor.options["agreed"] = joined.protocol_name or ""
        self._give_name(actor)
        text = f"joined {joined.generation_id} {joined.protocol_name}"
        text += f" as {self._name(joined.member_id)}"
        if joined.members:
            names = sorted(self._name(each.member_id) for each in joined.members)
            text += f" leads {' '.join(names)}"
        else:
            text += f" led by {self._name(joined.leader_id)}"
        return text + (" skip" if joined.skip_assignment else "")

    def _give_name(self, actor: Actor) -> None:
        if actor.member_id in self.names:
            return
        taken = set(self.names.values())
        name, count = actor.name, 1
        while name in taken:
            count += 1
            name = f"{actor.name}{count}"
        self.names[actor.member_id] = name

    def _name(self, member_id: str) -> str:
        # A response to another actor may be read first.
        if member_id not in self.names:
            prefix = member_id.split("-")[0]
            owner = self.actors.get(prefix)
            if owner is None:
                owner = next(
                    (each for each in reversed(self.actors.values()) if each.instance_id == prefix),
                    None,
                )
            if owner is None:
                return member_id
            self._give_name(Actor(owner.name, member_id))
        return self.names[member_id]

    def _recorded(self, value: Any) -> str | None:
        if value is None:
            return None
        names = sorted(self._name(each.member_id) for each in value.members)
        text = f"generation {value.generation}"
        return f"{text} of {' '.join(names)}" if names else f"{text} of nobody"


_SYNC_OPTIONS = {"generation", "as", "type", "protocol", "group"}

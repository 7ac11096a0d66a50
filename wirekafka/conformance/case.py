"""Cases of conformance: what is asked of a broker, and where the answers are expected from.

The modules of `cases` have a `BOOK` each, with the cases of one API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias

from wirekafka.codec.message import Request
from wirekafka.codec.schema import Versions

Make: TypeAlias = Callable[[Any], Request]
"""Makes the request of a case on a `Stage`."""
Play: TypeAlias = Callable[[Any], object]
"""Plays a case on a `Stage`."""


class ConformanceLevel(StrEnum):
    """What a broker is for; COMPLETE has what belongs to no other level."""

    CORE = "core client"
    TRANSACTIONS = "transactions"
    ADMIN = "admin"
    GROUPS = "groups of Kafka 4"
    SECURITY = "security"
    COMPLETE = "complete"


class Need(StrEnum):
    """What a broker under test must have for a case to be asked."""

    AUTHORIZER = "an authorizer"
    NO_AUTHORIZER = "no authorizer"
    LOGIN = "a login by SASL"
    NO_LOGIN = "no login by SASL"
    PLAIN = "a login by PLAIN of its own"
    SCRAM = "users with SCRAM passwords"
    TOKENS = "delegation tokens"
    THREE_BROKERS = "three brokers"
    SHARE_STATES = "a topic for states of share groups"
    TELEMETRY = "a receiver of metrics of clients"


@dataclass(frozen=True, slots=True)
class Case:
    """Requests whose answers are compared with answers of Apache Kafka."""

    api: str
    """The API that the case is about, such as "Produce"."""
    title: str
    area: str
    level: ConformanceLevel
    source: str
    """The KIP or the schema that says what is right."""
    request: type[Request]
    versions: tuple[Versions, ...]
    """The versions of `request` in which the case is played."""
    play: Play
    needs: frozenset[Need] = frozenset()
    is_alone: bool = False
    """Whether other cases must not be played meanwhile."""
    story: str = ""
    """What happens, in a sentence, where the title does not say it."""
    folder: str = ""
    """The folder of the recording, for cases apart from the other cases of their API."""

    @property
    def file(self) -> str:
        """The file of the recording without its suffix, such as "produce" or "hostile/fetch"."""
        return f"{self.folder}/{slug(self.api)}".lstrip("/")

    @property
    def name(self) -> str:
        """The name by which reports and options know the case, such as "produce/no-topics"."""
        return f"{self.file}/{slug(self.title)}"

    def has_version(self, version: int) -> bool:
        """Whether the case is played in a version of its API."""
        return any(version in each for each in self.versions)


@dataclass(slots=True)
class Book:
    """The cases of one API."""

    request: type[Request]
    area: str
    level: ConformanceLevel
    source: str
    """The KIP or the schema of cases that name none."""
    needs: frozenset[Need] = frozenset()
    folder: str = ""
    """The folder of the recording if the API has another book, whose names differ by it."""
    cases: list[Case] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    @property
    def api(self) -> str:
        return self.request.__name__.removesuffix("Request")

    def ask(
        self,
        title: str,
        make: Make,
        *,
        versions: str = "0+",
        source: str = "",
        needs: Iterable[Need] = (),
        level: ConformanceLevel | None = None,
    ) -> None:
        """Add a case of one request, which is asked in each of the `versions`."""

        def play(stage: Any) -> None:
            stage.ask(make(stage))

        self._add(title, play, versions, source, needs, level)

    def play(
        self,
        title: str,
        *,
        versions: str = "0+",
        source: str = "",
        needs: Iterable[Need] = (),
        level: ConformanceLevel | None = None,
        is_alone: bool = False,
    ) -> Callable[[Play], Play]:
        """Add a case of several requests; `stage.version` is the version that is played.

        The docstring of the function is the story of the case.
        """

        def add(play: Play) -> Play:
            self._add(title, play, versions, source, needs, level, is_alone=is_alone)
            return play

        return add

    def _add(
        self,
        title: str,
        play: Play,
        versions: str,
        source: str,
        needs: Iterable[Need],
        level: ConformanceLevel | None,
        *,
        is_alone: bool = False,
    ) -> None:
        case = Case(
            api=self.api,
            title=title,
            area=self.area,
            level=level or self.level,
            source=source or self.source,
            request=self.request,
            versions=tuple(Versions.parse(each.strip()) for each in versions.split(",")),
            play=play,
            needs=self.needs | frozenset(needs),
            is_alone=is_alone,
            story=(play.__doc__ or "").strip().split("\n\n")[0],
            folder=self.folder,
        )
        assert case.name not in self._names, case.name
        self._names.add(case.name)
        self.cases.append(case)


@cache
def slug(text: str) -> str:
    """The words of a text in small letters, joined by dashes: "OffsetFetch" is "offset-fetch"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", text).lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")

"""Plays cases on a cluster, several at once, and judges what they show."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wirekafka.client.client import CliError
from wirekafka.conformance import recordings
from wirekafka.conformance.case import Case
from wirekafka.conformance.expectation import Answers, Deviation, differences
from wirekafka.conformance.plain import Names
from wirekafka.conformance.stage import PreparationFailed, Stage, Unsupported, Wires
from wirekafka.conformance.target import ClusterUnderTest
from wirekafka.conformance.wait_limits import WaitLimits
from wirekafka.conformance.wire import SILENT, WireExchange

Outcome: TypeAlias = Literal["same", "different", "unsupported"]
WORKERS = 20
"""Cases that are played at once: most of their time, they wait for the broker."""
_MOST_AGAIN = 40
_STOP_S = 15.0
"""How long the end of a run waits for cases that are being played."""


@dataclass(slots=True)
class Played:
    """One case in one version."""

    version: int
    answers: Answers = field(default_factory=dict)
    exchanges: list[tuple[str, WireExchange]] = field(default_factory=list)
    unsupported: str = ""
    """The API that was missing; empty if none was."""
    failure: str = ""
    """Why the case could not be played to its end; empty if it was."""
    differences: list[Deviation] = field(default_factory=list)
    names: Names | None = None
    """The names with which the requests of `exchanges` read as the answers do."""

    def forget(self) -> None:
        """Drop what no report shows of a case that is as expected."""
        self.exchanges, self.names = [], None


@dataclass(slots=True)
class CaseResult:
    """What a case has shown in all versions that are judged."""

    case: Case
    seconds: float
    played: list[Played]
    first: list[Played] | None = None
    """What it has shown before it was played again, if it was."""

    @property
    def outcome(self) -> Outcome:
        if any(each.failure or each.differences for each in self.played):
            return "different"
        if all(each.unsupported for each in self.played):
            return "unsupported"
        return "same"


class Player:
    """Plays cases on one cluster."""

    def __init__(self, target: ClusterUnderTest) -> None:
        self.target = target
        self._numbers = itertools.count()
        self._is_over = threading.Event()

    def prepare(self) -> None:
        """Create the topics that cases share. Raises CliError."""
        from wirekafka.conformance.cases import SHARED

        wires = Wires(self.target)
        stage = Stage(self.target, wires, SHARED, 0, next(self._numbers))
        try:
            stage.make_shared()
        except (PreparationFailed, Unsupported) as error:
            raise CliError(f"no case can be played: {error}") from None
        finally:
            wires.close_all()

    def play(self, case: Case, version: int, wires: Wires) -> Played:
        """Play a case in one version of its API."""
        stage = Stage(self.target, wires, case, version, next(self._numbers))
        played = Played(version)
        try:
            case.play(stage)
        except Unsupported as error:
            played.unsupported = str(error)
        except (PreparationFailed, CliError) as error:
            played.failure = str(error)
        except Exception as error:
            # An answer without what the case goes on with: any broker may send anything.
            played.failure = f"{type(error).__name__}: {error}"
        # After a failure, an answer may still be on its way on any of them.
        wires.close_all(except_first=not (played.failure or played.unsupported))
        played.names, played.exchanges = stage.names(), stage.exchanges
        played.answers = stage.answers(played.names)
        return played

    def all(
        self, cases: Sequence[Case], versions_of: Callable[[Case], Iterable[int]]
    ) -> Generator[CaseResult]:
        """Play cases, several at once, and yield each result when it is there.

        When the generator is closed, no more requests are sent.
        """
        together = [each for each in cases if not each.is_alone]
        alone = [each for each in cases if each.is_alone]
        yield from self._by_workers(together, versions_of, WORKERS)
        yield from self._by_workers(alone, versions_of, 1)

    def judged(
        self,
        cases: Sequence[Case],
        release: str,
        *,
        with_messages: bool = False,
        when_different: Callable[[CaseResult], None] = lambda _: None,
    ) -> Generator[CaseResult]:
        """Play cases as `all` does, and judge them by a release of Apache Kafka.

        `when_different` gets a result that differs as soon as it is there. Such a case is played
        again by itself at the end, and judged by that: on a busy machine a session may expire too
        early. Where very many differ, none is played again.
        """

        def versions_of(case: Case) -> list[int]:
            return judged_versions(case, self.target, release)

        doubtful: list[CaseResult] = []
        for result in self.all(cases, versions_of):
            judge(result, release, with_messages=with_messages)
            if result.outcome == "different":
                self._note_silence(result)
                when_different(result)
                doubtful.append(result)
            else:
                yield result
        if len(doubtful) > _MOST_AGAIN:
            yield from doubtful
            return
        first = {each.case.name: each for each in doubtful}
        again = [each.case for each in doubtful]
        self.target.limits = WaitLimits()
        for result in self._by_workers(again, versions_of, 1):
            judge(result, release, with_messages=with_messages)
            result.first = first[result.case.name].played
            yield result

    def _note_silence(self, result: CaseResult) -> None:
        """Do not wait long again for an API that does not answer where Apache Kafka does."""
        if any(one.got == SILENT for each in result.played for one in each.differences):
            self.target.limits.miss(result.case.request.__name__)

    def _by_workers(
        self, cases: Sequence[Case], versions_of: Callable[[Case], Iterable[int]], workers: int
    ) -> Generator[CaseResult]:
        waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
        results: queue.SimpleQueue[CaseResult | BaseException] = queue.SimpleQueue()
        for case in cases:
            waiting.put(case)

        def work() -> None:
            wires = Wires(self.target)
            try:
                while True:
                    case = waiting.get_nowait()
                    start = time.monotonic()
                    played = [
                        self.play(case, each, wires)
                        for each in versions_of(case)
                        if not self._is_over.is_set()
                    ]
                    results.put(CaseResult(case, time.monotonic() - start, played))
            except queue.Empty:
                pass
            except BaseException as error:
                results.put(error)
            finally:
                wires.close_all()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            for _ in cases:
                found = results.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
        except BaseException:
            self._is_over.set()
            raise
        finally:
            deadline = time.monotonic() + _STOP_S
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))


def playable(cases: Iterable[Case], target: ClusterUnderTest) -> list[Case]:
    """The cases whose needs the cluster has."""
    return [each for each in cases if each.needs <= target.facts]


def judged_versions(case: Case, target: ClusterUnderTest, release: str) -> list[int]:
    """The versions in which a case is played: those recorded and advertised."""
    recorded = recordings.of_case(case).get(release, {})
    known = target.range_of(case.request)
    return [each for each in recorded if each in known and case.has_version(each)]


def judge(result: CaseResult, release: str, *, with_messages: bool = False) -> None:
    """Compare what a case has shown with what a release of Apache Kafka answers.

    Of a case that could not be played to its end, the steps are compared that have an answer.
    """
    recorded = recordings.of_case(result.case).get(release, {})
    for each in result.played:
        if each.unsupported:
            continue
        expected, got = recorded[each.version], dict(each.answers)
        if each.failure and isinstance(expected, dict):
            got = {step: one for step, one in got.items() if one is not None and step in expected}
            expected = {step: expected[step] for step in got}
        found = differences(expected, got, with_messages=with_messages)
        each.differences = list(found)

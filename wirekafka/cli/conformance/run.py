"""A run of cases on one cluster, from the choice of cases to the removal of what they made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from wirekafka.cli.conformance.progress import progress
from wirekafka.cli.output import note
from wirekafka.client.client import CliError
from wirekafka.conformance import recordings
from wirekafka.conformance.case import Case
from wirekafka.conformance.cleaning import clean
from wirekafka.conformance.reports.findings import ConformanceReport, in_order
from wirekafka.conformance.reports.remarks import cases_left_out, not_again, versions_that_differ
from wirekafka.conformance.run import CaseResult, Player, playable
from wirekafka.conformance.target import ClusterUnderTest
from wirekafka.conformance.wire import CLOSED, SILENT

_PATIENCE_S = 5.0
"""How long a broker may be gone before the run ends."""
_POLL_S = 0.2


class ConformanceRun:
    """The cases that are played on a cluster, and their results."""

    def __init__(self, target: ClusterUnderTest, cases: Sequence[Case], release: str) -> None:
        """Raises CliError if there is nothing to play."""
        check_release(release)
        if not cases:
            raise CliError("no case is chosen; --list shows them all")
        self._target, self._release = target, release
        self._recorded = [each for each in cases if recordings.of_case(each).get(release)]
        self._cases = playable(self._recorded, target)
        self._not_recorded = len(cases) - len(self._recorded)
        if not self._cases:
            raise CliError("; ".join(["none of the chosen cases can be played", *self._left_out()]))
        self._order = {each.name: at for at, each in enumerate(cases)}

    def report(self, *, with_messages: bool) -> ConformanceReport:
        """Play the cases. Raises CliError if the cluster does not stay."""
        started, start = datetime.now(UTC), time.monotonic()
        with cleaned(self._target) as left, progress(len(self._cases)) as advance:
            results = list(self._results(with_messages, advance))
        return ConformanceReport(
            target=described(self._target),
            release=self._release,
            started=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=time.monotonic() - start,
            results=in_order(results, self._order.__getitem__),
            remarks=[
                *self._left_out(),
                *not_again(results),
                *versions_that_differ(self._target, self._release),
            ],
            left=left,
        )

    def _left_out(self) -> list[str]:
        found = cases_left_out(self._recorded, self._target)
        if self._not_recorded:
            found.append(
                f"{self._not_recorded} cases have no recorded answer of Kafka {self._release}"
            )
        return found

    def _results(
        self, with_messages: bool, advance: Callable[[CaseResult], None]
    ) -> Iterator[CaseResult]:
        player = Player(self._target)
        player.prepare()
        done = 0

        def check(result: CaseResult) -> None:
            if _may_show_the_end(result):
                self._check_that_it_stays(done)

        judged = player.judged(
            self._cases, self._release, with_messages=with_messages, when_different=check
        )
        with closing(judged) as results:
            for result in results:
                done += 1
                for each in result.played:
                    if not (each.differences or each.failure):
                        each.forget()
                advance(result)
                yield result

    def _check_that_it_stays(self, done: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while gone := self._target.nodes.keys() - self._target.answering():
            if time.monotonic() > deadline:
                where = ", ".join(str(self._target.nodes[each]) for each in sorted(gone))
                total = len(self._cases)
                raise CliError(f"{where} no longer answers, after {done} of {total} cases")
            time.sleep(_POLL_S)


@contextmanager
def cleaned(target: ClusterUnderTest) -> Iterator[list[str]]:
    """Removes what cases have made, whatever happens; the list has then what is left, in words."""
    left: list[str] = []
    try:
        yield left
    except KeyboardInterrupt:
        note(f"interrupted: removing what begins with {target.prefix}")
        raise
    finally:
        try:
            if target.answering():
                left += clean(target.bootstrap, target.config, target.prefix)
            else:
                left.append(f"all that begins with {target.prefix}: no broker answers")
        except (CliError, OSError, ValueError) as error:
            left.append(f"all that begins with {target.prefix}: {error}")
        for each in left:
            note(f"left behind: {each}")


def check_release(release: str) -> None:
    """Raises CliError for a release of which nothing is recorded."""
    if release not in recordings.RELEASES:
        known = ", ".join(recordings.RELEASES)
        raise CliError(f"no answers of Apache Kafka {release} are recorded: expected {known}")


def described(target: ClusterUnderTest) -> str:
    """A cluster in words: its addresses, and how many brokers it has."""
    count = len(target.nodes)
    addresses = ",".join(map(str, target.bootstrap))
    return f"{addresses} ({count} broker{'' if count == 1 else 's'})"


def _may_show_the_end(result: CaseResult) -> bool:
    """Whether a result is as it would be if the broker was gone."""
    return any(
        each.failure or any(one.got in (CLOSED, SILENT) for one in each.differences)
        for each in result.played
    )

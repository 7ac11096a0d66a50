"""What one case asks, what each release of Apache Kafka answers, and what a broker answers now."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from wirekafka.cli.conformance.run import cleaned, described
from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.conformance import recordings
from wirekafka.conformance.case import Case
from wirekafka.conformance.cases import all_cases
from wirekafka.conformance.plain import Plain, plain
from wirekafka.conformance.reports.findings import DifferentCase, reason_of
from wirekafka.conformance.reports.hex_dump import exchange_lines
from wirekafka.conformance.reports.outline import outline
from wirekafka.conformance.run import CaseResult, Played, Player, judge, playable
from wirekafka.conformance.stage import Wires
from wirekafka.conformance.target import ClusterUnderTest


def explained(
    name: str, target: ClusterUnderTest | None, release: str, *, with_bytes: bool
) -> Iterator[str]:
    """The lines about a case. Without a cluster, requests are shown as wirekafka gets them.

    Raises CliError for a name that no case has.
    """
    case = named(name)
    yield from _heading(case)
    result = _played_here(case) if target is None else _played(case, target, release)
    yield ""
    yield from _requests(case, result, is_here=target is None, with_bytes=with_bytes)
    yield ""
    yield from _recorded(case)
    if target is not None:
        yield ""
        yield from _answers(result, described(target), release)


def named(name: str) -> Case:
    """The case of a name. Raises CliError with the names that are like it."""
    cases = {each.name: each for each in all_cases()}
    if name in cases:
        return cases[name]
    near = difflib.get_close_matches(name, cases, n=3, cutoff=0.5)
    near += [each for each in cases if name in each and each not in near][: 3 - len(near)]
    hint = f"; there is {' or '.join(near)}" if near else "; --list shows them all"
    raise CliError(f"no case {name!r}{hint}")


def _heading(case: Case) -> Iterator[str]:
    yield f"{case.name}: {case.title}"
    if case.story:
        yield f"  {' '.join(case.story.split())}"
    place = f"area {case.area}; level {case.level}; source {case.source}"
    yield f"  {case.api} {case.shown_versions}; {place}"
    if case.needs:
        yield f"  needs {' and '.join(sorted(case.needs))}"


def _played(case: Case, target: ClusterUnderTest, release: str | None) -> CaseResult:
    """The result of the case alone in all versions that are recorded, or all that are known."""
    if not playable([case], target):
        missing = " and ".join(sorted(case.needs - target.facts))
        return CaseResult(case, 0, [Played(-1, unsupported=f"the cluster lacks {missing}")])
    known = [each for each in target.range_of(case.request) if case.has_version(each)]
    if release is not None:
        recorded = recordings.of_case(case).get(release, {})
        known = [each for each in known if each in recorded]
    else:
        known = known[-1:]
    player = Player(target)
    wires = Wires(target)
    with cleaned(target):
        try:
            player.prepare()
            result = CaseResult(case, 0, [player.play(case, each, wires) for each in known])
        finally:
            wires.close_all()
    if release is not None:
        judge(result, release, with_messages=True)
    return result


def _played_here(case: Case) -> CaseResult:
    """The result of the newest version on a broker in this process."""
    from wirekafka.testing import Broker

    with Broker() as broker:
        target = ClusterUnderTest([Address.parse(broker.bootstrap_servers)])
        target.look()
        return _played(case, target, None)


def _requests(case: Case, result: CaseResult, *, is_here: bool, with_bytes: bool) -> Iterator[str]:
    shown = [each for each in result.played if each.exchanges]
    if not shown:
        yield f"Requests are not shown: {reason_of(result) or 'none were sent'}"
        return
    played = shown[-1]
    where = " to a wirekafka broker in this process" if is_here else ""
    yield f"Requests, as sent{where} in v{played.version}"
    for step, exchange in played.exchanges:
        if exchange.request is None or played.names is None:
            yield f"  {step}: {len(exchange.sent)} bytes"
        else:
            yield from outline(step, plain(exchange.request, played.names), 2)
        if with_bytes:
            yield from (f"      {line}" for line in exchange_lines(exchange))


def _recorded(case: Case) -> Iterator[str]:
    found = recordings.entries(recordings.of_case(case))
    if not found:
        yield "Apache Kafka: no answer is recorded"
    for each in found:
        yield f"Apache Kafka {', '.join(str(each['kafka']).split())} answers in v{each['versions']}"
        yield from _steps(each["answers"])


def _steps(answers: Plain) -> Iterator[str]:
    if isinstance(answers, dict):
        for step, value in answers.items():
            yield from outline(step, value, 2)
    else:
        yield from outline("all steps", answers, 2)


def _answers(result: CaseResult, where: str, release: str) -> Iterator[str]:
    judged = f"as Apache Kafka {release}" if result.outcome == "same" else result.outcome
    yield f"{where}: {judged}"
    if reason_of(result):
        yield f"  {reason_of(result)}"
    by_text: dict[str, tuple[list[int], Played]] = {}
    for each in result.played:
        by_text.setdefault(repr(each.answers), ([], each))[0].append(each.version)
    for versions, played in by_text.values():
        if played.answers:
            yield f"It answers in v{recordings.ranges(versions)}"
            yield from _steps(dict(played.answers))
    found = DifferentCase.of(result).differences
    if found:
        yield "Differences"
    for one in found:
        yield f"  {one.shown_versions} {one.path}"
        yield f"    - expected {one.expected_text}"
        yield f"    + got      {one.got_text}"

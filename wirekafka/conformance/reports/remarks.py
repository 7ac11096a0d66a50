"""Remarks of a run: cases that were left out, and versions that only one side advertises."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from wirekafka.conformance import recordings
from wirekafka.conformance.case import Case
from wirekafka.conformance.run import CaseResult
from wirekafka.conformance.target import ClusterUnderTest

ADVERTISED = "advertised.json"
"""The versions that releases of Apache Kafka advertise: by API, and by release."""


def cases_left_out(cases: Iterable[Case], target: ClusterUnderTest) -> list[str]:
    """How many cases need what the cluster does not have, by what that is."""
    counts = Counter(
        " and ".join(sorted(each.needs - target.facts))
        for each in cases
        if not each.needs <= target.facts
    )
    return [f"{count} cases are left out: they need {what}" for what, count in counts.items()]


def not_again(results: Iterable[CaseResult]) -> list[str]:
    """The cases that differed at first, and not when they were played by themselves."""
    names = [each.case.name for each in results if each.first and each.outcome != "different"]
    if not names:
        return []
    shown = ", ".join(names[:_NAMED]) + (" ..." if len(names) > _NAMED else "")
    return [f"{len(names)} cases differed among others and not by themselves: {shown}"]


def versions_that_differ(target: ClusterUnderTest, release: str) -> list[str]:
    """What Apache Kafka advertises and the cluster does not, and the reverse."""
    names: dict[int, str] = {}
    kafkas: dict[int, set[int]] = {}
    for key_and_name, releases in advertised().items():
        number, _, api = key_and_name.partition(" ")
        names[int(number)] = api
        kafkas[int(number)] = (
            set(recordings.numbers(releases[release])) if release in releases else set()
        )
    missing, more = [], []
    for key in sorted({*kafkas, *target.versions}):
        theirs = kafkas.get(key, set())
        low, high = target.versions.get(key, (0, -1))
        own = set(range(low, min(high, low + _MOST_VERSIONS) + 1))
        name = names.get(key, f"the API with key {key}")
        missing += [f"{name} {recordings.ranges(theirs - own)}"] if theirs - own else []
        more += [f"{name} {recordings.ranges(own - theirs)}"] if own - theirs else []
    found = []
    if missing:
        found.append(f"Kafka {release} advertises, the cluster does not: {', '.join(missing)}")
    if more:
        found.append(f"the cluster advertises, Kafka {release} does not: {', '.join(more)}")
    return found


_NAMED = 5
_MOST_VERSIONS = 100
"""Of an API: a broker may advertise any number."""


@cache
def advertised() -> dict[str, dict[str, str]]:
    """The versions by release, by the key and the name of an API: "0 Produce"."""
    file = files(recordings.__name__) / ADVERTISED
    found: dict[str, dict[str, str]] = json.loads(file.read_text())
    return found

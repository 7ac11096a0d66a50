"""Records what Apache Kafka answers in the cases of conformance.

    python -m compat_tests.conformance.record [--only REGEX] [--releases 3.9,4.3,4.4] [--runs 3]
    python -m compat_tests.conformance.record --at 4.4=HOST:PORT --at 4.4=HOST:PORT,FILE

Without --at it starts clusters of each release: of one node and of three, plain and secured. Each
case is played several times on each cluster; what differs then is left open in the recording.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compat_tests.conformance.clusters import ClusterKind, recorded_clusters
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.conformance import recordings
from wirekafka.conformance.case import Case
from wirekafka.conformance.cases import books
from wirekafka.conformance.cleaning import clean
from wirekafka.conformance.expectation import Answers, joined
from wirekafka.conformance.plain import Plain
from wirekafka.conformance.recordings import RELEASES, Recorded
from wirekafka.conformance.run import CaseResult, Player, playable
from wirekafka.conformance.target import ClusterUnderTest

FOLDER = Path(recordings.__file__).parent

Seen = dict[tuple[str, str, int], list[Answers]]
"""The answers of all runs, by case, release and version."""


def main() -> int:
    options = _options()
    chosen = [case for book in books() for case in book.cases if re.search(options.only, case.name)]
    seen: Seen = {}
    failures: list[str] = []
    for release, bootstrap, config in _clusters(options):
        for number in range(options.runs):
            start = time.monotonic()
            failures += _play(chosen, release, bootstrap, config, seen)
            taken = time.monotonic() - start
            print(f"{release} at {bootstrap}: run {number + 1}, {taken:.1f} s", file=sys.stderr)
    for text in dict.fromkeys(failures):
        print(text, file=sys.stderr)
    write(chosen, seen)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases by their names")
    parser.add_argument("--runs", type=int, default=3, metavar="NUMBER")
    parser.add_argument("--releases", default=",".join(RELEASES), metavar="RELEASE,...")
    parser.add_argument(
        "--kinds",
        type=lambda text: [ClusterKind(each) for each in text.split(",")],
        default=list(ClusterKind),
        metavar="KIND,...",
        help="the kinds of clusters to start",
    )
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="RELEASE=HOST:PORT,...[,FILE]",
        help="a running cluster of a release, with the properties of a client",
    )
    return parser.parse_args()


def _clusters(options: argparse.Namespace) -> Iterator[tuple[str, str, ClientConfig | None]]:
    """The release, an address and the client's options of each cluster."""
    for text in options.at:
        release, _, rest = text.partition("=")
        *addresses, last = rest.split(",")
        if Path(last).is_file():
            yield release, ",".join(addresses), ClientConfig.read(Path(last))
        else:
            yield release, rest, None
    if not options.at:
        for release in options.releases.split(","):
            yield from recorded_clusters(release, options.kinds)


@contextmanager
def player_at(bootstrap: str, config: ClientConfig | None) -> Iterator[Player]:
    """A player on a running cluster, which is clean afterwards."""
    target = ClusterUnderTest([Address.parse(each) for each in bootstrap.split(",")], config)
    target.look()
    player = Player(target)
    try:
        player.prepare()
        yield player
    finally:
        left = clean(target.bootstrap, config, target.prefix)
        if left:
            print(f"left behind at {bootstrap}: {len(left)}, such as {left[:3]}", file=sys.stderr)


def _play(
    cases: Sequence[Case], release: str, bootstrap: str, config: ClientConfig | None, seen: Seen
) -> list[str]:
    """Play the cases once; returns the failures in words."""
    failures = []
    with player_at(bootstrap, config) as player:
        for result in player.all(playable(cases, player.target), _all_versions(player.target)):
            failures += _failures(result, release)
            for each in result.played:
                if not each.unsupported and not each.failure:
                    key = (result.case.name, release, each.version)
                    seen.setdefault(key, []).append(each.answers)
    return failures


def _all_versions(target: ClusterUnderTest) -> Callable[[Case], Iterable[int]]:
    def versions(case: Case) -> Iterable[int]:
        return [each for each in target.range_of(case.request) if case.has_version(each)]

    return versions


def _failures(result: CaseResult, release: str) -> list[str]:
    return [
        f"{release} {result.case.name} v{each.version}: {each.failure}"
        for each in result.played
        if each.failure
    ]


def write(chosen: Iterable[Case], seen: Seen) -> None:
    """Write the files of the books; cases that were not played keep what is recorded."""
    names = {case.name for case in chosen}
    for file in sorted({case.file for case in chosen}):
        cases: dict[str, Recorded] = {}
        for case in (case for book in books() for case in book.cases if case.file == file):
            recorded = recordings.of_case(case)
            if case.name in names:
                for (name, release, version), runs in seen.items():
                    if name == case.name:
                        recorded.setdefault(release, {})[version] = joined(runs)
            kept = {release: _kept(case, versions) for release, versions in recorded.items()}
            if any(kept.values()):
                cases[case.title] = kept
        path = FOLDER / f"{file}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(recordings.text_of(cases))


def _kept(case: Case, versions: dict[int, Plain]) -> dict[int, Plain]:
    """Without the versions in which the case is no longer played."""
    return {
        version: each for version, each in sorted(versions.items()) if case.has_version(version)
    }


if __name__ == "__main__":
    sys.exit(main())

"""`wirekafka conformance`: what a Kafka-compatible broker answers otherwise than Apache Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, CommandConfig, note
from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.conformance.cases import all_cases
from wirekafka.conformance.cleaning import clean
from wirekafka.conformance.recordings import RELEASES
from wirekafka.conformance.reports import as_json, as_text
from wirekafka.conformance.run import CaseResult, Player, judge, judged_versions, playable
from wirekafka.conformance.target import ClusterUnderTest
from wirekafka.regex import regex_of

_DIFFERENT, _NOT_RUN = 1, 2


def command(
    target: Annotated[
        str, typer.Argument(metavar="HOST:PORT[,...]", help="Bootstrap brokers.")
    ] = BOOTSTRAP,
    *,
    command_config: CommandConfig = None,
    release: Annotated[
        str, typer.Option("--as", metavar="RELEASE", help=f"One of {', '.join(RELEASES)}.")
    ] = RELEASES[-1],
    only: Annotated[str, typer.Option(metavar="REGEX", help="Only cases whose name matches.")] = "",
    messages: Annotated[
        bool, typer.Option("--messages", help="Compare the words of error messages, too.")
    ] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare any Kafka-compatible broker with what Apache Kafka answers."""
    start = time.monotonic()
    try:
        config = ClientConfig.read(command_config) if command_config else None
        found = ClusterUnderTest([Address.parse(each) for each in target.split(",")], config)
        found.look()
        results = list(_played(found, release, only, messages))
    except (CliError, ConfigError, ValueError) as error:
        note(f"wirekafka: {error}")
        raise typer.Exit(_NOT_RUN) from None
    seconds = time.monotonic() - start
    print(as_json(results, seconds) if as_json_ else as_text(results, seconds))
    if any(each.outcome == "different" for each in results):
        raise typer.Exit(_DIFFERENT)


def _played(
    target: ClusterUnderTest, release: str, only: str, messages: bool
) -> Iterable[CaseResult]:
    chosen = regex_of(only)
    cases = [each for each in playable(all_cases(), target) if chosen.is_found_in(each.name)]
    player = Player(target)
    try:
        player.prepare()
        for result in player.all(cases, lambda case: judged_versions(case, target, release)):
            judge(result, release, with_messages=messages)
            yield result
    finally:
        for left in clean(target.bootstrap, target.config, target.prefix):
            print(f"left behind: {left}", file=sys.stderr)


__all__ = ["Path", "command"]

"""`wirekafka doctor`: what is wrong with a cluster or a data directory, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, CommandConfig, note, show_json, show_line
from wirekafka.client.client import CliError
from wirekafka.config.address import Address
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.option import ConfigError
from wirekafka.doctor.finding import Finding, Severity, has_problems

_PROBLEMS, _NOT_EXAMINED = 1, 2
_HEADINGS = {
    Severity.ERROR: "Errors: something does not work, or records are lost",
    Severity.WARNING: "Warnings: it works for now",
    Severity.NOTE: "Notes",
}


def command(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="HOST:PORT|DATA",
            help="Bootstrap brokers, or the log directories of one node: DIR,DIR,...",
        ),
    ] = None,
    *,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            envvar="WIREKAFKA_BOOTSTRAP",
            metavar="HOST:PORT[,...]",
            help=f"Bootstrap brokers, where none are named before; {BOOTSTRAP} by default.",
        ),
    ] = None,
    command_config: CommandConfig = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="The longest wait for one answer.", min=0.1)
    ] = 5.0,
    again_after: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="The time before problems that may pass by themselves are checked again.",
            min=0,
        ),
    ] = 3.0,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every batch of a stopped node's data, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong with any Kafka cluster, or with a node's data; nothing is altered.

    The status is 0 if all was checked and nothing is wrong, 1 if there are errors or warnings,
    and 2 if nothing could be checked.
    """
    named = target or bootstrap or BOOTSTRAP
    try:
        directories = _directories(named)
        if directories:
            findings, checked = _of_data(directories, deep=deep)
        else:
            findings, checked = _of_cluster(named, command_config, timeout, again_after)
    except (CliError, ConfigError, OSError) as error:
        note(f"wirekafka: {error}")
        raise typer.Exit(_NOT_EXAMINED) from None
    if as_json:
        show_json({"checked": checked, "findings": [asdict(each) for each in findings]})
    else:
        _show(findings, checked)
    if has_problems(findings):
        raise typer.Exit(_PROBLEMS)


def _directories(named: str) -> list[Path]:
    """The log directories that are named; none if these are addresses."""
    parts = [part.strip() for part in named.split(",") if part.strip()]
    if any(Path(part).exists() or "/" in part for part in parts):
        return [Path(part) for part in parts]
    return []


def _of_cluster(
    bootstrap: str, command_config: Path | None, timeout_s: float, again_after_s: float
) -> tuple[Sequence[Finding], Sequence[str]]:
    from wirekafka.doctor.cluster.examination import CHECKS, LookingTimes, examine_cluster

    try:
        addresses = [Address.parse(part) for part in bootstrap.split(",") if part.strip()]
    except ValueError as error:
        raise CliError(f"{error}, and there is no such directory") from None
    if not addresses:
        raise CliError("no bootstrap address: expected HOST:PORT")
    config = None if command_config is None else ClientConfig.read(command_config)
    patience = LookingTimes(timeout_s=timeout_s, again_after_s=again_after_s)
    examined = examine_cluster(addresses, config, patience)
    if examined.facts is None:
        return examined.findings, ["certificates"]
    return examined.findings, list(CHECKS)


def _of_data(directories: Sequence[Path], *, deep: bool) -> tuple[Sequence[Finding], Sequence[str]]:
    from wirekafka.doctor.data.examination import CHECKS, DEEP, examine_data

    for directory in directories:
        if not directory.is_dir():
            raise CliError(f"{directory} is not a directory")
    findings = examine_data([str(each.absolute()) for each in directories], deep=deep)
    return findings, [*CHECKS, *((DEEP,) if deep else ())]


def _show(findings: Sequence[Finding], checked: Sequence[str]) -> None:
    for severity, heading in _HEADINGS.items():
        found = [each for each in findings if each.severity is severity]
        if found:
            show_line(heading)
        for each in found:
            show_line(f"  {each.subject}: {each.problem} [{each.check}]")
            show_line(f"    {each.advice}")
    if not has_problems(findings):
        show_line(f"Nothing is wrong. Checked: {', '.join(checked)}.")

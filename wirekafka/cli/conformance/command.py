"""`wirekafka conformance`: what a Kafka-compatible broker answers otherwise than Apache Kafka."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, CommandConfig, note, show_line
from wirekafka.client.client import CliError
from wirekafka.config.option import ConfigError

if TYPE_CHECKING:
    from wirekafka.conformance.case import Case
    from wirekafka.conformance.reports.findings import ConformanceReport
    from wirekafka.conformance.target import ClusterUnderTest

# Modules of cases and what they import are loaded only where they are needed: not for --help.

_DIFFERENT, _NOT_RUN = 1, 2
_PREFIX = "conformance"
_LONGEST_PREFIX = 40
_LEGAL_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class _Files:
    """Where reports are written to, besides standard output."""

    junit: Path | None
    html: Path | None


def command(
    target: Annotated[
        str | None, typer.Argument(metavar="HOST:PORT[,...]", help="Bootstrap brokers.")
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
    release: Annotated[
        str,
        typer.Option(
            "--as", metavar="RELEASE", help="Of Apache Kafka, to compare with: 3.9, 4.3 or 4.4."
        ),
    ] = "4.4",
    only: Annotated[
        str, typer.Option(metavar="REGEX", help="Only cases whose name, area or API has a match.")
    ] = "",
    level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="Only cases of a level: core, transactions, admin, groups, security, complete.",
        ),
    ] = "complete",
    prefix: Annotated[
        str, typer.Option(metavar="NAME", help="With what all names of the run begin.")
    ] = _PREFIX,
    messages: Annotated[
        bool,
        typer.Option(
            "--messages",
            help="Compare what clients do not read, too: error messages, numbers beside an error.",
        ),
    ] = False,
    as_json: AsJson = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report in the form of JUnit, too.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report as a web page, too.")
    ] = None,
    wire: Annotated[
        bool, typer.Option("--wire", help="Show requests and answers as bytes, too.")
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="CASE",
            help="Show what a case asks and what Apache Kafka answers; with a broker, its answers.",
        ),
    ] = None,
    as_list: Annotated[
        bool, typer.Option("--list", help="List the cases by area and level, and play none.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a run on a cluster with topics.")
    ] = False,
) -> None:
    """Compare any Kafka-compatible broker with what Apache Kafka answers.

    The run makes topics, groups and the like under names of its own, removes them at its end, and
    sends malformed requests, too: do not run it on a cluster that matters.

    The status is 0 if all answers are the same or not supported, 1 if some are different, and 2
    if the cases could not be played.
    """
    try:
        cases = _chosen(only, level)
        named = target or bootstrap
        if explain is not None:
            _explain(explain, named, command_config, release, wire=wire, as_json=as_json)
        elif as_list:
            _list(cases, as_json=as_json)
        else:
            _check_files(_Files(junit, html))
            found = _target(named or BOOTSTRAP, command_config, _checked_prefix(prefix))
            report = _run(found, cases, release, yes=yes, with_messages=messages)
            _show(report, as_json=as_json, with_bytes=wire)
            _write(report, _Files(junit, html))
            if report.total.different:
                raise typer.Exit(_DIFFERENT)
    except (CliError, ConfigError, OSError, ValueError) as error:
        note(f"wirekafka: {error}")
        raise typer.Exit(_NOT_RUN) from None


def _chosen(only: str, level: str) -> list[Case]:
    """The cases of a level in which an expression is found. Raises CliError, InvalidRegex."""
    from wirekafka.conformance.cases import all_cases
    from wirekafka.conformance.levels import level_of
    from wirekafka.regex import regex_of

    regex, wanted = regex_of(only), level_of(level)
    return [
        each
        for each in all_cases()
        if wanted.has(each) and any(map(regex.is_found_in, (each.name, each.area, each.api)))
    ]


def _checked_prefix(prefix: str) -> str:
    """The prefix, if names of topics may begin with it. Raises CliError."""
    if not _LEGAL_PREFIX.fullmatch(prefix) or len(prefix) > _LONGEST_PREFIX:
        raise CliError(
            f"a prefix has 1 to {_LONGEST_PREFIX} letters, digits, dots, dashes or underscores, "
            f"and begins with a letter or digit: {prefix}"
        )
    return prefix


def _target(bootstrap: str, command_config: Path | None, prefix: str) -> ClusterUnderTest:
    """The cluster, looked at. Raises CliError, ConfigError, ValueError."""
    import secrets

    from wirekafka.config.address import Address
    from wirekafka.config.client_config import ClientConfig
    from wirekafka.conformance.target import ClusterUnderTest

    addresses = [Address.parse(each) for each in bootstrap.split(",") if each.strip()]
    config = ClientConfig.read(command_config) if command_config else None
    # Cleaning removes whatever begins with the prefix: it must be of this run alone.
    found = ClusterUnderTest(addresses, config, f"{prefix}-{secrets.token_hex(3)}")
    found.look()
    return found


def _run(
    target: ClusterUnderTest, cases: list[Case], release: str, *, yes: bool, with_messages: bool
) -> ConformanceReport:
    from wirekafka.cli.conformance.caution import warn
    from wirekafka.cli.conformance.run import ConformanceRun

    run = ConformanceRun(target, cases, release)
    warn(target, asks=not yes and sys.stdin.isatty() and sys.stderr.isatty())
    return run.report(with_messages=with_messages)


def _explain(
    name: str,
    bootstrap: str | None,
    command_config: Path | None,
    release: str,
    *,
    wire: bool,
    as_json: bool,
) -> None:
    from wirekafka.cli.conformance.explanation import explained

    if as_json:
        raise CliError("explanations are text: leave out --json")
    target = _target(bootstrap, command_config, _PREFIX) if bootstrap else None
    for line in explained(name, target, release, with_bytes=wire):
        show_line(line)


def _list(cases: list[Case], *, as_json: bool) -> None:
    from wirekafka.conformance.reports.listing import json_listing, listing

    print(json_listing(cases) if as_json else listing(cases))


def _check_files(to: _Files) -> None:
    """Before the run, which takes long. Raises CliError, OSError."""
    for each in (to.junit, to.html):
        if each is not None and not each.absolute().parent.is_dir():
            raise CliError(f"{each}: there is no such directory")
    if to.html is not None:
        try:
            import jinja2  # noqa: F401
        except ModuleNotFoundError as error:
            raise CliError(f"--html needs `pip install 'wirekafka[console]'`: {error}") from None


def _write(report: ConformanceReport, to: _Files) -> None:
    if to.junit is not None:
        from wirekafka.conformance.reports.junit import as_junit

        to.junit.write_text(as_junit(report), encoding="utf-8")
    if to.html is not None:
        from wirekafka.conformance.reports.page import as_html

        to.html.write_text(as_html(report), encoding="utf-8")


def _show(report: ConformanceReport, *, as_json: bool, with_bytes: bool) -> None:
    from wirekafka.conformance.reports.json_document import as_json as json_document
    from wirekafka.conformance.reports.text import as_text

    print(json_document(report) if as_json else as_text(report, with_bytes=with_bytes))

"""The Iceberg tables of topics: their status, a comparison with the log, a new beginning."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirekafka.cli.output import AsJson, CommandConfig, note, show_json, show_line, show_table
from wirekafka.cli.schemas.access import RegistryUrl
from wirekafka.cli.sources import KeyPrefix, TierUrl, opened_log
from wirekafka.client.client import Client, CliError, ConnectionFailure
from wirekafka.client.configurations import TOPIC, described
from wirekafka.client.registry_settings import registry_of
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.table_mode import TableMode
from wirekafka.config.table_place import TablePlace
from wirekafka.log.checkpoints import uuid_text

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from wirekafka.translation.comparison.log_values import LogValues
    from wirekafka.translation.comparison.log_windows import CheckedLog
    from wirekafka.translation.comparison.stored_rows import StoredRows
    from wirekafka.translation.table_lag import TableLag
    from wirekafka.translation.table_summary import TableSummary, WorkerState
    from wirekafka.translation.verification import Claim, VerificationReport

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_PREFIX = "wirekafka.table."
_OPTIONS = ("mode", "write", "invalid.record.action")
_HOW_IT_IS_WRITTEN = (
    "A table of a compacted topic, or of newest records, differs unless --compacted or --upsert is"
    " given, and so does a table whose log lost records before it began; with --bootstrap-server,"
    " the broker says how it is."
)
_EARLIEST = -2
_PREFIX_MODE = "value_schema_id_prefix"
_CLEANUP = "cleanup.policy"
_STATUS_COLUMNS = (
    "topic",
    "mode",
    "state",
    "rows",
    "lag",
    "behind s",
    "last commit",
    "dead letters",
    "files",
    "bytes",
    "snapshots",
)
_PARTITION_COLUMNS = (
    "partition",
    "start",
    "end",
    "records",
    "rows",
    "dead letters",
    "below start",
    "compacted away",
    "dropped",
    "undecoded",
)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC")]
TablesUrl = Annotated[
    str,
    typer.Option(
        "--tables",
        envvar="WIREKAFKA_TABLES",
        metavar="URL",
        help="Where the tables are, as in `serve --tables`: a directory, or the URL of a store.",
    ),
]
Namespace = Annotated[
    str, typer.Option("--namespace", metavar="NAME", help="The namespace of the tables.")
]
CatalogName = Annotated[
    str, typer.Option("--catalog-name", metavar="NAME", help="The name of the catalog.")
]
CatalogProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="KEY=VALUE",
        help="A property of pyiceberg's catalog, such as uri=...; may be repeated.",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="WIREKAFKA_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        help="Bootstrap brokers, for the ends of the log and the options of topics.",
    ),
]


@app.command()
def status(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC")] = None,
    *,
    tables: TablesUrl,
    namespace: Namespace = "redpanda",
    catalog_name: CatalogName = "wirekafka",
    catalog_properties: CatalogProperties = None,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print size, lag, last commit, dead letters and state of tables; of TOPIC by partition."""
    with _opened(table_place(tables, namespace, catalog_name, catalog_properties)) as catalog:
        found = _summaries(catalog, namespace, topic)
        states = _states(catalog, found)
    lags: dict[str, TableLag] = {}
    modes: dict[str, str] = {}
    if bootstrap is not None:
        with Client(bootstrap, command_config) as client:
            lags, modes = _seen_by(client, found)
    lines = [
        _status(each, modes.get(each.topic), states.get(each.topic), lags.get(each.topic))
        for each in found
    ]
    if as_json:
        show_json(lines if topic is None else lines[0])
        return
    show_table(_STATUS_COLUMNS, [_cells(line) for line in lines])
    for line in lines:
        if line["error"]:
            show_line(f"{line['topic']}: {line['error']}")
    if topic is not None:
        show_table(
            ("partition", "mark", "log start", "log end", "lag"),
            [tuple(each.values()) for each in lines[0]["partitions"]],
        )


@app.command()
def verify(
    topic: TopicName,
    *,
    tables: TablesUrl,
    namespace: Namespace = "redpanda",
    catalog_name: CatalogName = "wirekafka",
    catalog_properties: CatalogProperties = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="DIR", help="A log directory; may be repeated."),
    ] = None,
    tier: TierUrl = None,
    key_prefix: KeyPrefix = "",
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="The table has the newest record of each key.")
    ] = False,
    typed: Annotated[
        bool, typer.Option("--typed", help="The value's columns are those of a schema.")
    ] = False,
    drops_invalid: Annotated[
        bool, typer.Option("--drops-invalid", help="Records that do not decode are dropped.")
    ] = False,
    compacted: Annotated[
        bool, typer.Option("--compacted", help="The log may lack records that the table has.")
    ] = False,
    schema_registry: RegistryUrl = None,
    as_json: AsJson = False,
) -> None:
    """Compare a table with its log, offset by offset: exit status 1 if they differ.

    The log is read from directories, while a broker runs on them or not, or from brokers. Brokers
    that answer say how the table is written and where logs begin; without one, the options from
    --upsert on do. Typed columns are compared with a schema registry.
    """
    if not data and bootstrap is None:
        raise CliError("which log? give --data DIR or --bootstrap-server HOST:PORT")
    said = {
        "is_upsert": upsert,
        "is_typed": typed,
        "drops_invalid": drops_invalid,
        "is_compacted": compacted,
    }
    with (
        _opened(table_place(tables, namespace, catalog_name, catalog_properties)) as catalog,
        _log(data, tier, key_prefix, bootstrap, command_config) as log,
        _progress() as advance,
    ):
        from wirekafka.translation.verification import verify as compared

        topic_id, mode, starts = None, "", {}
        if bootstrap is not None:
            try:
                with Client(bootstrap, command_config) as client:
                    options = _options(client, topic)
                    said, mode = _said_by(options, said), options.get("mode", "")
                    found = client.topic(topic)
                    topic_id = uuid_text(bytes(found.topic_id))
                    places = [(topic, each.partition_index) for each in found.partitions]
                    starts = {
                        index: offset
                        for (_, index), offset in client.known_offsets(places, _EARLIEST).items()
                    }
            except ConnectionFailure:
                if not data:
                    raise
        claim, rows, letters = _claimed(catalog, namespace, topic, topic_id, said)
        values = _log_values(topic, mode, rows, schema_registry, command_config)
        claim = replace(claim, starts=starts)
        report = compared(log, claim, rows, letters, advance, values)
    if as_json:
        show_json(_report_fields(report))
    else:
        _show(report)
    if not report.is_equal:
        if bootstrap is None and not (upsert or compacted or as_json):
            typer.echo(_HOW_IT_IS_WRITTEN, err=True)
        raise typer.Exit(1)


@app.command()
def rebuild(
    topic: TopicName,
    *,
    tables: TablesUrl,
    namespace: Namespace = "redpanda",
    catalog_name: CatalogName = "wirekafka",
    catalog_properties: CatalogProperties = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Set a table aside as TOPIC~old-N, so that it is written again from the log.

    The worker of a broker that runs notices within a minute, and creates the table anew, with the
    columns and partitions that the topic has now, from the first record that the log still has.
    """
    with _opened(table_place(tables, namespace, catalog_name, catalog_properties)) as catalog:
        from wirekafka.translation.rebuild import older_name, set_aside

        [found] = _summaries(catalog, namespace, topic)
        older = older_name(catalog, namespace, topic)
        question = (
            f"{namespace}.{topic} has {found.rows} rows. Rename it to {older},"
            f" and write it again from the log?"
        )
        if not yes and not typer.confirm(question, err=True):
            raise CliError("nothing was changed")
        set_aside(catalog, namespace, topic, older)
    note(
        f"{topic} is now {older}; the worker creates {topic} anew and fills it from the log."
        f" Drop {older} when it is no longer needed"
    )


def table_place(
    url: str, namespace: str, catalog_name: str, properties: Sequence[str] | None
) -> TablePlace:
    """The place that options name. Raises CliError."""
    pairs = [each.partition("=") for each in properties or ()]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise CliError(f"--catalog {wrong[0]}: expected KEY=VALUE")
    if "://" not in url and not Path(url).is_dir():
        raise CliError(f"there is no directory {url}")
    return TablePlace(url, namespace, catalog_name, {key: value for key, _, value in pairs})


@contextmanager
def _opened(place: TablePlace) -> Iterator[Catalog]:
    """The catalog of a place. Raises CliError, also for problems of the tables in the block."""
    try:
        from wirekafka.reader import ReaderError
        from wirekafka.tables.iceberg.catalog import open_catalog
        from wirekafka.tables.iceberg.problems import CatalogProblem, WrongTable
        from wirekafka.translation.problems import TableProblem
    except ModuleNotFoundError as error:
        raise CliError(f"{error}: pip install 'wirekafka[iceberg]'") from None
    try:
        yield open_catalog(place.url, name=place.catalog_name, properties=place.catalog_properties)
    except (CatalogProblem, ReaderError, TableProblem, ValueError, WrongTable) as error:
        raise CliError(str(error)) from error


def _summaries(catalog: Catalog, namespace: str, topic: str | None) -> list[TableSummary]:
    from wirekafka.translation.table_summary import summary_of, topic_tables

    names = topic_tables(catalog, namespace) if topic is None else [topic]
    found = [summary_of(catalog, namespace, name) for name in names]
    if topic is not None and None in found:
        raise CliError(f"there is no table {namespace}.{topic}")
    return [each for each in found if each is not None]


def _states(catalog: Catalog, summaries: Sequence[TableSummary]) -> dict[str, WorkerState]:
    from wirekafka.translation.table_summary import node_reports, worker_state

    reports = node_reports(catalog)
    found = {each.topic: worker_state(reports, each) for each in summaries}
    return {topic: state for topic, state in found.items() if state is not None}


def _seen_by(
    client: Client, summaries: Sequence[TableSummary]
) -> tuple[dict[str, TableLag], dict[str, str]]:
    """The lags of tables, and the modes of their topics, as far as the brokers report them."""
    from wirekafka.translation.table_lag import lags_of, topic_access, with_age

    access = topic_access(client, [each.topic for each in summaries])
    present = [
        each
        for each in summaries
        if each.topic in access and access[each.topic].topic_id == each.topic_id
    ]
    partitions = lags_of(
        client,
        {each.topic: access[each.topic].partitions for each in present},
        {each.topic: each.ends for each in present},
    )
    now_ms = time.time_ns() // 1_000_000
    lags = {topic: with_age(client, topic, each, now_ms) for topic, each in partitions.items()}
    modes = {topic: mode for topic in lags if (mode := _options(client, topic).get("mode"))}
    return lags, modes


def _options(client: Client, topic: str) -> dict[str, str]:
    """What a topic sets of its table, by short names; nothing on brokers without tables."""
    names = (*(_PREFIX + each for each in _OPTIONS), _CLEANUP)
    entries = described(client, TOPIC, topic, only=names)
    return {each.name.removeprefix(_PREFIX): each.value or "" for each in entries}


def _status(
    summary: TableSummary, mode: str | None, state: WorkerState | None, lag: TableLag | None
) -> dict[str, Any]:
    """What is shown of a table; None is unknown."""
    lags = {} if lag is None else {each.partition: each for each in lag.partitions}
    return {
        "topic": summary.topic,
        "topic_id": summary.topic_id,
        "mode": mode or summary.mode,
        "state": None if state is None else str(state.state),
        "error": summary.problem or (None if state is None else state.error),
        "node": None if state is None else state.node_id,
        "rows": summary.rows,
        "dead_letters": summary.dead_letters,
        "files": summary.files,
        "bytes": summary.size_bytes,
        "snapshots": summary.snapshots,
        "commit_ms": summary.commit_ms,
        "lag": None if lag is None else lag.records,
        "behind_ms": None if lag is None else lag.behind_ms,
        "partitions": [
            {
                "partition": index,
                "mark": summary.ends.get(index),
                "start": lags[index].start_offset if index in lags else None,
                "end": lags[index].end_offset if index in lags else None,
                "lag": lags[index].records if index in lags else None,
            }
            for index in sorted({*summary.ends, *lags})
        ],
    }


def _cells(line: Mapping[str, Any]) -> list[Any]:
    shown = {
        **line,
        "behind s": None if line["behind_ms"] is None else f"{line['behind_ms'] / 1000:.1f}",
        "last commit": _moment(line["commit_ms"]),
        "dead letters": line["dead_letters"],
    }
    return [shown[name] for name in _STATUS_COLUMNS]


def _moment(value_ms: int | None) -> str | None:
    if value_ms is None:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(value_ms / 1000))


@contextmanager
def _log(
    data: Sequence[str] | None,
    tier: str | None,
    key_prefix: str,
    bootstrap: str | None,
    command_config: Path | None,
) -> Iterator[CheckedLog]:
    if data:
        # What is below the marks was committed: it is read beyond a checkpoint that is older.
        place = ",".join(data)
        with opened_log(place, tier=tier, key_prefix=key_prefix, to_log_end=True) as log:
            yield log
        return
    from wirekafka.reader.wire_log import WireLog

    assert bootstrap is not None
    config = ClientConfig.read(command_config) if command_config else None
    with WireLog(bootstrap, config) as wire:
        yield wire


def _said_by(options: Mapping[str, str], said: Mapping[str, bool]) -> dict[str, bool]:
    """How a table is written, by the topic's options or else by the command line."""
    mode = options.get("mode", "")
    return {
        "is_upsert": said["is_upsert"] or options.get("write") == "upsert",
        "is_typed": said["is_typed"] or mode.startswith("value_schema"),
        "drops_invalid": said["drops_invalid"] or options.get("invalid.record.action") == "drop",
        "is_compacted": said["is_compacted"] or "compact" in options.get(_CLEANUP, ""),
    }


def _log_values(
    topic: str, mode: str, rows: StoredRows, registry: str | None, command_config: Path | None
) -> LogValues | None:
    """What decodes the values of the log for typed columns; None without a registry."""
    from wirekafka.translation.comparison.log_values import LogValues
    from wirekafka.translation.problems import TablePaused
    from wirekafka.translation.schemas import schemas_of

    if rows.is_key_value or not rows.value_type.num_fields:
        return None
    config = ClientConfig.read(command_config) if command_config else None
    found = registry_of(config, registry)
    if found is None:
        return None
    try:
        schemas = schemas_of(topic, TableMode.parse(mode or _PREFIX_MODE), found)
    except TablePaused as error:
        raise CliError(str(error)) from None
    return None if schemas is None else LogValues(schemas, rows.value_type, rows.renames)


def _claimed(
    catalog: Catalog, namespace: str, topic: str, topic_id: str | None, said: Mapping[str, bool]
) -> tuple[Claim, StoredRows, StoredRows | None]:
    """What a table is said to have, and its rows and dead letters. Raises CliError."""
    from wirekafka.tables.iceberg.layout import dead_letter_table
    from wirekafka.tables.iceberg.marks import Marks, marks_of
    from wirekafka.translation.comparison.stored_rows import StoredRows
    from wirekafka.translation.verification import Claim

    # Dead letters are committed first: read second, they are complete up to the table's marks.
    table = _loaded(catalog, namespace, topic)
    letters = _loaded(catalog, namespace, dead_letter_table(topic))
    if table is None:
        raise CliError(f"there is no table {namespace}.{topic}")
    marks = marks_of(table) or Marks(topic_id or "")
    if topic_id not in (None, marks.topic_id):
        raise CliError(
            f"the table is of the topic with id {marks.topic_id}, the topic now has id {topic_id}"
        )
    letter_marks = None if letters is None else marks_of(letters)
    rows = StoredRows(table)
    claim = Claim(
        topic=topic,
        marks=marks.ends,
        dead_letter_marks={} if letter_marks is None else letter_marks.ends,
        compares_values=rows.is_key_value and not said["is_typed"],
        is_upsert=said["is_upsert"],
        drops_invalid=said["drops_invalid"],
        is_compacted=said["is_compacted"],
    )
    return claim, rows, None if letters is None else StoredRows(letters)


def _loaded(catalog: Catalog, namespace: str, name: str) -> Table | None:
    from pyiceberg.exceptions import NoSuchTableError

    from wirekafka.tables.iceberg.problems import passing_problems

    with passing_problems(f"{namespace}.{name}"):
        try:
            return catalog.load_table((namespace, name))
        except NoSuchTableError:
            return None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Shows on a terminal how far each partition has been compared."""
    if not sys.stderr.isatty():
        yield lambda partition, offset: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the table's metadata") as shown:
        yield lambda partition, offset: shown.update(
            f"partition {partition} is compared up to offset {offset}"
        )


def _report_fields(report: VerificationReport) -> dict[str, Any]:
    return {
        "topic": report.topic,
        "equal": report.is_equal,
        "counts": {str(kind): count for kind, count in report.counts.items()},
        "partitions": [asdict(each) for each in report.partitions],
        "differences": [asdict(each) | {"kind": str(each.kind)} for each in report.differences],
    }


def _show(report: VerificationReport) -> None:
    rows = [asdict(each).values() for each in report.partitions]
    show_table(_PARTITION_COLUMNS, [list(each) for each in rows])
    for each in report.differences:
        show_line(str(each))
    if report.is_equal:
        show_line("The table equals the log.")
    else:
        counts = ", ".join(f"{count} {kind}" for kind, count in report.counts.items())
        show_line(f"The table differs from the log: {counts}.")

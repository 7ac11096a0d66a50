"""`wirekafka reassign`: plan and start moves of partitions to other brokers, and follow them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from wirekafka.cli.output import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    note,
    show_json,
    show_rows,
    show_table,
)
from wirekafka.client.admin.move_throttle import (
    find_throttles,
    remove_throttles,
    set_throttles,
    throttle_moves,
)
from wirekafka.client.admin.reassignments import (
    PartitionFailure,
    Reassignment,
    current_assignment,
    list_reassignments,
    moved,
    racks_of,
    reassign,
    with_sizes,
)
from wirekafka.client.admin.replica_plan import BrokersOfPartitions, balanced
from wirekafka.client.client import Client, CliError
from wirekafka.client.configurations import TOPIC

_STDIN = Path("-")
_THROTTLED = "the throttle stays until `wirekafka reassign unthrottle`"
_FILE_VERSION = 1
_POLL_S = 0.5
_PLAN_COLUMNS = ("topic", "partition", "current", "proposed")
_STATUS_COLUMNS = (
    "topic",
    "partition",
    "replicas",
    "adding",
    "removing",
    "copied_bytes",
    "all_bytes",
    "copied",
)

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TopicNames = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; may be repeated."),
]
Brokers = Annotated[
    str | None,
    typer.Option("--brokers", metavar="ID,...", help="The brokers; default: all in service."),
]
Factor = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        "-r",
        metavar="N",
        min=1,
        help="Replicas of each partition; default: as now.",
    ),
]
IgnoreRacks = Annotated[
    bool, typer.Option("--ignore-racks", help="Do not spread replicas over racks.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Report the progress until all is done.")]
Rate = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES",
        min=1,
        help="Let each broker copy so many bytes a second at the most; removed after --wait.",
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", min=0, help="The longest wait.")
]


@app.command()
def plan(
    topics: TopicNames = None,
    *,
    brokers: Brokers = None,
    replication_factor: Factor = None,
    ignore_racks: IgnoreRacks = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print how topics would be spread evenly over brokers and racks, with few moves.

    --json prints a file for `reassign apply` and for Kafka's tool.
    """
    with Client(bootstrap, command_config) as client:
        current = _current(client, topics)
        racks = _racks(client, brokers, ignore_racks=ignore_racks)
        proposed = balanced(current, racks, replication_factor)
    _show_plan(current, proposed, as_json=as_json)
    note(_summary(current, proposed))


@app.command()
def apply(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A plan, as `plan --json` prints it; - for stdin."),
    ] = None,
    *,
    topics: TopicNames = None,
    brokers: Brokers = None,
    replication_factor: Factor = None,
    ignore_racks: IgnoreRacks = False,
    throttle: Rate = None,
    wait: Wait = False,
    timeout: Timeout = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Start the moves of a plan, or of topics to brokers as `plan` would spread them.

    Prints what changes; with --json, `current` is the plan by which all of it is undone.
    """
    has_options = bool(topics or brokers or replication_factor or ignore_racks)
    if (file is None) != has_options:
        raise CliError("what is to move? give either a FILE, or --topic with --brokers")
    with Client(bootstrap, command_config) as client:
        if file is None:
            current = _current(client, topics)
            racks = _racks(client, brokers, ignore_racks=ignore_racks)
            wanted = balanced(current, racks, replication_factor)
        else:
            wanted = _read(file)
            current = current_assignment(client, sorted({topic for topic, _ in wanted}))
        changed = {each: wanted[each] for each in moved(current, wanted)}
        before = [] if throttle is None else throttle_moves(client, current, changed, throttle)
        try:
            failures = reassign(client, changed) if changed else []
        except CliError:
            set_throttles(client, before)
            raise
        failed = {(each.topic, each.partition) for each in failures}
        started = {each: brokers for each, brokers in changed.items() if each not in failed}
        _show_plan({each: current.get(each, []) for each in started}, started, as_json=as_json)
        note(_summary(current, {**current, **started}))
        if wait and started:
            _wait(client, started, timeout, is_throttled=bool(before))
        if wait or not started:
            set_throttles(client, before)
        elif before:
            note(_THROTTLED)
    _raise(failures)


@app.command()
def status(
    *,
    topics: TopicNames = None,
    wait: Wait = False,
    timeout: Timeout = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Print the moves in progress, and how much of each is copied."""
    with Client(bootstrap, command_config) as client:
        found = with_sizes(client, _ongoing(client, topics))
        rows = [_status_row(each) for each in found]
        if as_json:
            show_json([dict(zip(_STATUS_COLUMNS, row, strict=True)) for row in rows])
        elif rows:
            show_table(_STATUS_COLUMNS, [_shown(row) for row in rows])
        else:
            note("no reassignments in progress")
        if wait and found:
            _wait(client, {(each.topic, each.partition) for each in found}, timeout)
        if wait or not found:
            _remark_on_throttles(client)


@app.command()
def cancel(
    *,
    topics: TopicNames = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", help="A partition of the only topic."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All moves in progress.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Cancel moves in progress: the partitions stay on the brokers that they come from."""
    if bool(topics) == every:
        raise CliError("which moves? give --topic, or --all")
    if partitions and len(topics or ()) != 1:
        raise CliError("--partition needs one --topic")
    with Client(bootstrap, command_config) as client:
        found = [
            each
            for each in _ongoing(client, topics)
            if not partitions or each.partition in partitions
        ]
        failures = reassign(client, {(e.topic, e.partition): None for e in found}) if found else []
        if found and not list_reassignments(client):
            _remark_on_throttles(client)
    failed = {(each.topic, each.partition) for each in failures}
    rows = [
        (each.topic, each.partition, [b for b in each.replicas if b not in each.adding])
        for each in found
        if (each.topic, each.partition) not in failed
    ]
    columns = ("topic", "partition", "replicas")
    if as_json:
        show_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        show_table(columns, [(topic, index, _joined(some)) for topic, index, some in rows])
    else:
        note("no reassignments in progress")
    _raise(failures)


@app.command()
def unthrottle(
    bootstrap: Bootstrap = BOOTSTRAP, command_config: CommandConfig = None, as_json: AsJson = False
) -> None:
    """Remove the throttles of all topics and brokers, and print them."""
    with Client(bootstrap, command_config) as client:
        found = find_throttles(client)
        remove_throttles(client, found)
    rows = [
        ("topic" if each.kind == TOPIC else "broker", each.name, option, value)
        for each in found
        for option, value in each.options.items()
        if value
    ]
    columns = ("kind", "name", "option", "value")
    show_rows(columns, rows, as_json=as_json, none="no throttles")


def _current(client: Client, topics: Sequence[str] | None) -> BrokersOfPartitions:
    if not topics:
        raise CliError("which topics? give --topic")
    return current_assignment(client, list(dict.fromkeys(topics)))


def _racks(client: Client, brokers: str | None, *, ignore_racks: bool) -> dict[int, str | None]:
    """The brokers with the racks that count: none unless all brokers have one."""
    racks = racks_of(client, None if brokers is None else _ids(brokers))
    if ignore_racks or all(racks.values()):
        return dict.fromkeys(racks) if ignore_racks else racks
    if any(racks.values()):
        without = ", ".join(str(each) for each, rack in racks.items() if not rack)
        note(f"racks are ignored: brokers {without} have none")
    return dict.fromkeys(racks)


def _ids(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 11 for word in words):
        raise CliError(f"bad --brokers {text!r}: expected ids, such as 1,2,3")
    return list(dict.fromkeys(int(word) for word in words))


def _read(path: Path) -> BrokersOfPartitions:
    """The plan in a file of the form of Kafka's tool. Raises CliError, OSError."""
    try:
        plan = json.loads(sys.stdin.read() if path == _STDIN else path.read_text())
        found: BrokersOfPartitions = {}
        for each in plan["partitions"]:
            partition = (_checked(each["topic"], str), _checked(each["partition"], int))
            if partition in found:
                raise CliError(f"{path}: {partition[0]}-{partition[1]} is there twice")
            found[partition] = [_checked(broker, int) for broker in each["replicas"]]
            if any(name != "any" for name in each.get("log_dirs") or ()):
                raise CliError(f"{path}: log_dirs other than any are not supported")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CliError(
            f"{path}: expected a plan: partitions with topic, partition and replicas"
        ) from None
    if not found:
        raise CliError(f"{path}: the plan has no partitions")
    return found


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _plan(assignment: Mapping[tuple[str, int], Sequence[int]]) -> dict[str, Any]:
    return {
        "version": _FILE_VERSION,
        "partitions": [
            {"topic": topic, "partition": index, "replicas": list(replicas)}
            for (topic, index), replicas in assignment.items()
        ],
    }


def _show_plan(
    current: BrokersOfPartitions, proposed: BrokersOfPartitions, *, as_json: bool
) -> None:
    if as_json:
        show_json(_plan(proposed) | {"current": _plan(current)})
        return
    if proposed:
        show_table(
            _PLAN_COLUMNS,
            [
                (*each, _joined(current.get(each, ())), _joined(replicas))
                for each, replicas in proposed.items()
            ],
        )


def _summary(current: BrokersOfPartitions, proposed: BrokersOfPartitions) -> str:
    changed = list(moved(current, proposed))
    new = sum(len(set(proposed[each]) - set(current.get(each, ()))) for each in changed)
    return f"{len(changed)} of {len(proposed)} partitions change, {new} replicas are copied"


def _ongoing(client: Client, topics: Sequence[str] | None) -> list[Reassignment]:
    return [each for each in list_reassignments(client) if not topics or each.topic in topics]


def _remark_on_throttles(client: Client) -> None:
    """Say that there are throttles although nothing moves, to users who may see them."""
    with suppress(CliError):
        if find_throttles(client):
            note("brokers or topics are still throttled, until `wirekafka reassign unthrottle`")


def _status_row(found: Reassignment) -> tuple[Any, ...]:
    fraction = found.fraction
    return (
        found.topic,
        found.partition,
        list(found.replicas),
        list(found.adding),
        list(found.removing),
        found.copied_bytes,
        found.all_bytes,
        None if fraction is None else round(fraction, 3),
    )


def _shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    topic, partition, replicas, adding, removing, copied, size, fraction = row
    percent = None if fraction is None else f"{fraction:.0%}"
    brokers = (_joined(each) or None for each in (replicas, adding, removing))
    return (topic, partition, *brokers, copied, size, percent)


def _wait(
    client: Client,
    partitions: Collection[tuple[str, int]],
    timeout_s: float | None,
    *,
    is_throttled: bool = False,
) -> None:
    """Wait for some partitions; an end by an error or Ctrl-C says that throttles stay."""
    try:
        _follow(client, partitions, timeout_s)
    except BaseException:
        if is_throttled:
            note(_THROTTLED)
        raise


def _follow(
    client: Client, partitions: Collection[tuple[str, int]], timeout_s: float | None
) -> None:
    """Report the progress of some partitions, each time it changes, until all are done."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    reported = None
    while True:
        left = [
            each
            for each in list_reassignments(client)
            if (each.topic, each.partition) in partitions
        ]
        if not left:
            note(f"{len(partitions)} of {len(partitions)} partitions are done")
            return
        line = _progress(with_sizes(client, left), len(partitions))
        if line != reported:
            note(line)
            reported = line
        if deadline is not None and time.monotonic() > deadline:
            raise CliError(f"{len(left)} partitions are not done after {timeout_s:g} s")
        time.sleep(_POLL_S)


def _progress(left: Sequence[Reassignment], count: int) -> str:
    copied, size = (
        sum(values)
        for values in (
            [each.copied_bytes or 0 for each in left],
            [each.all_bytes or 0 for each in left],
        )
    )
    done = f"{count - len(left)} of {count} partitions are done"
    return f"{done}, {copied} of {size} bytes of the others are copied" if size else done


def _raise(failures: Sequence[PartitionFailure]) -> None:
    if failures:
        raise CliError("; ".join(each.reason for each in failures))


def _joined(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))

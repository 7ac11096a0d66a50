"""The `wirekafka` command: finds the subcommand and imports only its module."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from wirekafka import __version__

if TYPE_CHECKING:
    import typer

# Subcommand -> (module, what its help says). A module has `app` (a group) or `command`.
COMMANDS = {
    "serve": ("wirekafka.cli.serve", "Run a broker."),
    "topics": ("wirekafka.cli.topics", "List, create, delete, describe and alter topics."),
    "produce": ("wirekafka.cli.produce", "Write standard input to a topic, a record a line."),
    "consume": ("wirekafka.cli.consume", "Print the records of a topic."),
    "groups": ("wirekafka.cli.groups", "List, describe, reset and delete consumer groups."),
    "clients": (
        "wirekafka.cli.clients",
        "Show how far each client has fetched, or which are throttled.",
    ),
    "configs": ("wirekafka.cli.configs", "Describe and alter configurations."),
    "schemas": (
        "wirekafka.cli.schemas.commands",
        "List, show, register, check and delete schemas of a registry.",
    ),
    "quotas": ("wirekafka.cli.quotas", "List, set and remove quotas."),
    "acls": ("wirekafka.cli.admin.acls", "List, add and remove ACLs."),
    "users": ("wirekafka.cli.admin.users", "List, add and remove users with SCRAM passwords."),
    "cluster": (
        "wirekafka.cli.admin.cluster",
        "Describe brokers, the quorum and disks; unregister brokers.",
    ),
    "features": ("wirekafka.cli.admin.features", "List features, and change their levels."),
    "elect": ("wirekafka.cli.admin.elect", "Elect leaders of partitions."),
    "reassign": (
        "wirekafka.cli.admin.reassign",
        "Move partitions to other brokers: plan, apply, status, cancel.",
    ),
    "transactions": (
        "wirekafka.cli.admin.transactions",
        "List and describe transactions, find and abort hanging ones.",
    ),
    "console": ("wirekafka.cli.console", "Serve web pages about a Kafka cluster."),
    "schema-registry": (
        "wirekafka.cli.schema_registry",
        "Serve a schema registry over a Kafka cluster.",
    ),
    "tables": (
        "wirekafka.cli.tables",
        "Show and check the Iceberg tables of topics, or have them written again.",
    ),
    "mirror": (
        "wirekafka.cli.copies.mirror",
        "Show how far the copy of another cluster is, or promote its topics.",
    ),
    "tier": ("wirekafka.cli.tier", "Show and check the object store of tiered topics."),
    "handover": ("wirekafka.cli.handover", "Print what Apache Kafka needs to take over."),
    "snapshot": ("wirekafka.cli.copies.snapshot", "Copy a node's data as it is at one instant."),
    "branch": (
        "wirekafka.cli.copies.branch",
        "Make a node of its own from a node's data, sharing what does not change.",
    ),
    "repair": (
        "wirekafka.cli.repair",
        "Find corrupt batches in a log directory, or truncate a log.",
    ),
    "export": (
        "wirekafka.cli.export",
        "Write a topic of a log directory or a store to a Parquet, JSON or CSV file.",
    ),
    "replay": (
        "wirekafka.cli.replay",
        "Produce the records of a log directory or a store again, at their pace.",
    ),
    "doctor": (
        "wirekafka.cli.admin.doctor",
        "Find what is wrong with a cluster or a data directory, and what to do about it.",
    ),
    "conformance": (
        "wirekafka.cli.conformance.command",
        "Compare a Kafka-compatible broker with what Apache Kafka answers.",
    ),
    "dump-log": ("wirekafka.cli.dump_log", "Print the batches and records of a log file."),
    "completion": ("wirekafka.cli.shell.completion", "Print a script of completion for a shell."),
}
_COMPLETE = "_WIREKAFKA_COMPLETE"
"""Set by the scripts of completion, which ask for the words that may stand next."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and exit: 0 for success, 1 for a failure, 2 for wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if _COMPLETE in os.environ:
        sys.exit(_guarded(lambda: _complete(words)))
    # A broker must be up within 0.3 s; the command-line library alone takes a third of that.
    if words[:1] == ["serve"]:
        sys.exit(_guarded(lambda: _serve(words[1:])))
    if words == ["--version"]:
        print(f"wirekafka {__version__}")
        sys.exit(0)
    sys.exit(_guarded(lambda: build(words)(words, prog_name="wirekafka")))


def _complete(words: Sequence[str]) -> None:
    from wirekafka.cli.shell.candidates import CommandTree, show_candidates

    tree = CommandTree(
        {name: summary for name, (_, summary) in COMMANDS.items()},
        build,
        lambda: import_module(COMMANDS["serve"][0]).options(),
    )
    show_candidates(words, tree)


def _serve(words: Sequence[str]) -> int:
    # Until the node has started: nearly all objects stay, and scanning them takes time.
    gc.disable()
    try:
        status: int = import_module(COMMANDS["serve"][0]).main(words)
    finally:
        gc.enable()
    return status


def build(words: Sequence[str]) -> typer.Typer:
    """The typer application, with all subcommands or only the subcommand in `words`."""
    import typer

    app = typer.Typer(
        name="wirekafka",
        help="A Kafka broker in Python, and commands for any Kafka broker.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def root(
        version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    ) -> None:
        if version:
            print(f"wirekafka {__version__}")
            raise typer.Exit

    chosen = [words[0]] if words and words[0] in COMMANDS else list(COMMANDS)
    for name in chosen:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    path, summary = COMMANDS[name]
    if name == "serve":
        # Only for the list of commands: main() runs it without typer.
        app.command(name, help=summary)(lambda: None)
        return
    module = import_module(path)
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name, help=summary)
    else:
        app.command(name, help=summary)(module.command)


def _guarded(run: Callable[[], int | None]) -> int:
    """The exit status of a run; its failures become one line on standard error."""
    try:
        return run() or 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does; this is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if not _is_expected(error):
            raise
        from wirekafka.visible_text import visible

        print(f"wirekafka: {visible(str(error))}", file=sys.stderr)
        return 1


def _is_expected(error: Exception) -> bool:
    from wirekafka.client.client import CliError
    from wirekafka.config.option import ConfigError
    from wirekafka.errors import KafkaError

    return isinstance(error, CliError | ConfigError | KafkaError | OSError)


if __name__ == "__main__":
    main()

"""`wirekafka serve`: runs a broker until SIGTERM, SIGHUP or Ctrl-C."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wirekafka.cli import shortcuts
from wirekafka.cli.cluster_directory import has_cluster
from wirekafka.cli.shell.help_layout import HelpLayout
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.loggers import REQUEST_LOGGER
from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    console_listener,
    mirror_source,
    schema_registry_listener,
    tables_url,
)
from wirekafka.config.sources import BUILT_IN, Setting
from wirekafka.server.equal_lines import EqualLines

if TYPE_CHECKING:
    from wirekafka.config.client_config import ClientConfig
    from wirekafka.metadata.bootstrap import FirstUsers
    from wirekafka.registry.instance.built_in import BuiltInRegistry
    from wirekafka.server.run import Companion

_DATA = "wirekafka-data"
_MOST_BROKERS = 1000
_DEFAULT_CLUSTER_ID = "WIREKAFKA_DEFAULT_CLUSTER_ID"
"""The variable with the id of a new cluster that none is given for, set by the container image."""


def main(words: Sequence[str]) -> int:
    """Serve until a signal stops it; returns the exit status. Raises ConfigError, OSError.

    The caller may have disabled garbage collection: it is enabled once the node has started.
    """
    arguments = _parser().parse_args(words)
    _log_to_stderr(arguments.log_level, arguments.log_format)
    if arguments.request_log:
        logging.getLogger(REQUEST_LOGGER).setLevel(logging.DEBUG)
    if arguments.secure:
        from wirekafka.cli.private_files import keep_new_files_private

        keep_new_files_private()
    config = configuration(arguments)
    _check_mirror_options(arguments, config)
    if arguments.brokers is not None:
        return _serve_several(arguments, config)
    refuse_unsupported(config)
    _refuse_cluster(config)
    _check_tables(config)
    users = _first_users(arguments.add_scram)
    ready, authority, login = None, None, None
    if arguments.secure:
        from wirekafka.cli import secure

        secured, keystore = secure.prepare(config)
        config = secure.of_one_broker(config, keystore)
        users = [*secured.first_users(), *users]
        ready = secured.announce
        authority = secured.authority_file
        login = secured.login
    registry = _schema_registry(config, login)
    # The console is the second to serve: its pages show the schemas of the registry.
    companions: list[Companion | None] = [
        registry,
        _console(config, authority, registry),
        _mirror_progress(arguments),
    ]
    from wirekafka.server.run import Attended, DirectoryFormat, run

    new = DirectoryFormat(
        _cluster_id(arguments.cluster_id), _cluster_id(os.environ.get(_DEFAULT_CLUSTER_ID)), users
    )
    attended = Attended(
        ready=ready,
        companions=[each for each in companions if each is not None],
        stops_at_eof=arguments.stop_at_eof,
    )
    return run(config, arguments.loop, new, attended)


def _serve_several(arguments: argparse.Namespace, config: BrokerConfig) -> int:
    """Run the nodes of `--brokers` as child processes. Raises ConfigError."""
    from wirekafka.cli import brokers
    from wirekafka.server.supervisor import supervise

    _first_users(arguments.add_scram)
    _cluster_id(arguments.cluster_id)
    security, ready = None, None
    if arguments.secure:
        from wirekafka.cli import secure

        security = secure.of_nodes(config)
        arguments.add_scram.append(f"@{secure.first_users_file(config)}")
    stages = brokers.nodes(arguments, config, security)
    if arguments.secure:
        secured, _ = secure.prepare(config)
        secured.write_nodes()
        ready = secured.announce
    for program in (program for stage in stages for program in stage):
        # Errors that a node would report are reported once, before any is started.
        of_node = configuration(_parser().parse_args(program.arguments))
        refuse_unsupported(of_node)
        _check_tables(of_node)
    gc.enable()  # The supervisor starts no node itself.
    return supervise(stages, logs_json=arguments.log_format == "json", ready=ready)


def configuration(arguments: argparse.Namespace) -> BrokerConfig:
    """The broker's configuration: options of the command, environment, file, defaults."""
    given = shortcuts.given(arguments)
    config = BrokerConfig.of(given, os.environ, arguments.config)
    if arguments.secure:
        from wirekafka.cli import secure

        given |= {name: Setting(text, "--secure") for name, text in secure.settings(config).items()}
        config = BrokerConfig.of(given, os.environ, arguments.config)
    if {"log.dir", "log.dirs"}.isdisjoint(config.sources.static):
        given["log.dirs"] = Setting(_DATA, BUILT_IN)
        config = BrokerConfig.of(given, os.environ, arguments.config)
    return config


def options() -> list[argparse.Action]:
    """The options of the command, with their names and what they do."""
    return [each for each in _parser()._actions if each.help != argparse.SUPPRESS]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wirekafka serve",
        description="Run a broker; no configuration is needed.",
        epilog="Settings, strongest first: --set, KAFKA_* in the environment, --config, defaults."
        " An option such as --listen that contradicts one of them is refused.",
        formatter_class=HelpLayout,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a server.properties file")
    parser.add_argument("--data", metavar="DIR", help=f"the data directory (default: {_DATA})")
    parser.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="[NAME://]HOST:PORT",
        help="an address to listen on; port 0 takes a free one; may be repeated",
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS, SCRAM-SHA-512 and denial by default: certificates and an administrator's"
        " password are generated beside the data directory, and client settings are printed",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a Kafka option; may be repeated",
    )
    parser.add_argument(
        "--loop",
        choices=("auto", "uvloop", "asyncio"),
        default="auto",
        help="the event loop (default: uvloop where it is installed)",
    )
    parser.add_argument(
        "--cluster-id",
        metavar="ID",
        default=os.environ.get("CLUSTER_ID"),
        help="cluster id of a new data directory; one of another cluster is refused (default:"
        " CLUSTER_ID in the environment, or else a random UUID)",
    )
    parser.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="MECHANISM=[name=NAME,password=PASSWORD]",
        help="create a SCRAM user in a new data directory, as kafka-storage format does; for"
        " example SCRAM-SHA-512=[name=admin,password=secret]; @FILE for those in a file, one a"
        " line; may be repeated",
    )
    _add_nodes(parser)
    _add_mirror(parser)
    _add_reports(parser)
    return parser


def _add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the options of single nodes among several, and of a node's directories."""
    parser.add_argument(
        "--new-directory",
        action="append",
        default=[],
        metavar="DIR",
        help="a directory of log.dirs that may be new beside others that this node has used; may"
        " be repeated",
    )
    parser.add_argument(
        "--tier",
        metavar="URL",
        help="keep closed segments of topics with remote.storage.enable=true in an object store,"
        " such as file:///mnt/tier, s3://bucket/prefix, gs://bucket or az://container; credentials"
        " and endpoints are those of the usual environment variables",
    )
    parser.add_argument(
        "--tables",
        metavar="URL",
        help="write topics with wirekafka.table.mode to Iceberg tables as well, in a directory or"
        " an object store, such as s3://bucket/prefix, gs://bucket or az://container",
    )
    parser.add_argument("--node-set", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument(
        "--brokers",
        type=_count,
        metavar="N",
        help="run N brokers and their controller as one cluster on this machine, each a process"
        " with a directory below --data; broker 1 listens at the addresses of --listen, each"
        " further one a port higher",
    )
    parser.add_argument(
        "--stop-at-eof",
        action="store_true",
        help="stop when standard input, a pipe, ends: with the program that started the broker",
    )


def _add_mirror(parser: argparse.ArgumentParser) -> None:
    """Add the options of a node that copies topics of another cluster."""
    parser.add_argument(
        "--mirror",
        metavar="HOST:PORT[,...]",
        help="copy topics of another Kafka cluster, with their offsets; they are read-only until"
        " `wirekafka mirror promote`",
    )
    parser.add_argument(
        "--mirror-topics", metavar="PATTERN", help="copy topics whose names match (default: all)"
    )
    parser.add_argument(
        "--mirror-config",
        metavar="FILE",
        help="properties of a Kafka client, by which the node connects to that cluster",
    )
    parser.add_argument(
        "--mirror-from",
        metavar="AGE",
        help="begin the copy of a new topic so long ago, such as 30m, 1h or 7d (default: where the"
        " topic begins)",
    )
    parser.add_argument(
        "--mirror-once",
        action="store_true",
        help="copy what there is at the start, and nothing that comes later",
    )
    parser.add_argument(
        "--mirror-rate", metavar="BYTES", help="copy so many bytes a second at the most"
    )
    parser.add_argument(
        "--mirror-groups",
        metavar="PATTERN",
        help="copy the committed offsets of groups whose names match (default: none)",
    )
    parser.add_argument(
        "--mirror-configs",
        action="store_true",
        help="give topics the configurations that they have in that cluster",
    )


def _add_reports(parser: argparse.ArgumentParser) -> None:
    """Add the options of a broker's reports about itself."""
    parser.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="serve metrics and health over HTTP, on 127.0.0.1 unless a host is given",
    )
    parser.add_argument(
        "--console",
        metavar="[HOST:]PORT",
        help="serve the console, web pages about the cluster, on 127.0.0.1 unless a host is given",
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="let the console write records and change topics, groups, configurations, ACLs, "
        "users and quotas; it is read-only otherwise",
    )
    parser.add_argument(
        "--console-config",
        metavar="FILE",
        help="properties of a Kafka client, by which the console connects to this broker",
    )
    parser.add_argument(
        "--schema-registry",
        metavar="[HOST:]PORT",
        help="serve a schema registry over the topic _schemas, on 127.0.0.1 unless a host is given",
    )
    parser.add_argument(
        "--schema-registry-config",
        metavar="FILE",
        help="properties of a Kafka client, by which the schema registry connects to this broker",
    )
    parser.add_argument(
        "--log-level",
        default="info",
        metavar="LEVEL",
        choices=("debug", "info", "warning", "error"),
        help="the log level on standard error (default: info)",
    )
    parser.add_argument(
        "--request-log",
        action="store_true",
        help="log every request and its response as Kafka's request logger does; slow",
    )
    parser.add_argument(
        "--log-format",
        default="text",
        choices=("text", "json"),
        help="the form of the log on standard error; json is one object a line (default: text)",
    )


def _refuse_cluster(config: BrokerConfig) -> None:
    """Refuse to run a single broker in a directory of `--brokers`. Raises ConfigError."""
    for path in config.data_directories:
        if has_cluster(Path(path)):
            message = f"{path} has the nodes of a cluster: serve them with --brokers"
            raise ConfigError("log.dirs", path, message, message)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_BROKERS):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {_MOST_BROKERS}: {text}")
    return int(text)


def _cluster_id(text: str | None) -> str | None:
    """Any text is the id of a cluster, as it is to Kafka's format tool. Raises ConfigError."""
    if not text or not text.strip():
        return None
    if not text.isprintable():
        expected = "expected printable characters, such as 5L6g3nShT-eMCtK--X86sw"
        raise ConfigError("cluster.id", text, expected, f"--cluster-id {text!r}: {expected}")
    return text.strip()


def _first_users(texts: Sequence[str]) -> FirstUsers:
    if not texts:
        return ()
    from secrets import token_bytes

    from wirekafka.metadata.first_users import parse

    each_of = (
        Path(text[1:]).read_text().splitlines() if text.startswith("@") else [text]
        for text in texts
    )
    return [parse(text, token_bytes(16)) for part in each_of for text in part]


def _check_tables(config: BrokerConfig) -> None:
    """Check the settings of tables, if there are any. Raises ConfigError."""
    if tables_url(config.sources) is not None:
        from wirekafka.server.tabling.settings import TablingSettings

        TablingSettings.of(config)


def _check_mirror_options(arguments: argparse.Namespace, config: BrokerConfig) -> None:
    """Check the settings of a mirror, if there are any. Raises ConfigError."""
    source = mirror_source(config.sources)
    if source is None:
        for name, value in vars(arguments).items():
            if name.startswith("mirror_") and value:
                option = f"--{name.replace('_', '-')}"
                raise ConfigError(option, None, "needs --mirror", f"{option} needs --mirror")
        return
    from wirekafka.server.mirroring.settings import MirrorSettings, refuse_several

    if arguments.brokers is not None:
        refuse_several(source)
    MirrorSettings.of(config)


def _mirror_progress(arguments: argparse.Namespace) -> Companion | None:
    """The progress of a copy that is made once; imported only then."""
    if not arguments.mirror_once:
        return None
    from wirekafka.cli.copies.mirror_progress import MirrorProgress

    return MirrorProgress()


def _console(
    config: BrokerConfig, authority: Path | None, registry: BuiltInRegistry | None
) -> Companion | None:
    """The console, if it is wanted; imported only then. Raises ConfigError, OSError."""
    if console_listener(config.sources) is None:
        return None
    try:
        from wirekafka.console.built_in import BuiltInConsole
    except ModuleNotFoundError as error:
        reason = f"it needs `pip install 'wirekafka[console]'`: {error}"
        raise ConfigError("--console", None, reason, f"--console: {reason}") from None
    return BuiltInConsole(config, authority, registry)


def _schema_registry(config: BrokerConfig, login: ClientConfig | None) -> BuiltInRegistry | None:
    """The schema registry, if it is wanted; imported only then. Raises ConfigError, OSError."""
    if schema_registry_listener(config.sources) is None:
        return None
    try:
        from wirekafka.registry.instance.built_in import BuiltInRegistry
    except ModuleNotFoundError as error:
        reason = f"it needs `pip install 'wirekafka[registry]'`: {error}"
        option = "--schema-registry"
        raise ConfigError(option, None, reason, f"{option}: {reason}") from None
    return BuiltInRegistry(config, login)


def _log_to_stderr(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        from wirekafka.server.json_logs import JsonFormatter

        handler.setFormatter(JsonFormatter())
    else:
        from wirekafka.server.text_logs import FORMAT, TextFormatter

        handler.setFormatter(TextFormatter(FORMAT))
    handler.addFilter(EqualLines(handler))
    logging.basicConfig(handlers=[handler], level=level.upper())

"""`python -m wirekafka.config.docs` writes docs/reference/configuration.md from the options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wirekafka.config import options as tables
from wirekafka.config.checks.differences import DIFFERENCES
from wirekafka.config.checks.group_bounds import BOUNDING
from wirekafka.config.checks.ignored_options import IGNORED
from wirekafka.config.checks.unsupported_options import DECIDING_CLASSES, JAVA_SECURITY
from wirekafka.config.loggers import OF_KAFKA
from wirekafka.config.option import Option, Type, text_of
from wirekafka.config.options import BROKER, CLIENT_METRICS, FAMILIES, GROUP, TOPIC, Table
from wirekafka.config.own import OWN, PREFIXES

_PACKAGE = Path(__file__).resolve().parent.parent
PAGE = _PACKAGE.parent / "docs" / "reference" / "configuration.md"

AREAS = (
    ("The node and its quorum", tables.ClusterOptions),
    ("Listeners, connections, quotas", tables.NetworkOptions),
    ("Topics and logs", tables.LogOptions),
    ("Replication", tables.ReplicationOptions),
    ("Groups and offsets", tables.GroupOptions),
    ("Transactions and idempotent producers", tables.TransactionOptions),
    ("Share groups", tables.ShareOptions),
    ("Security (TLS, permissions, tokens)", tables.SecurityOptions),
    ("Logins by SASL", tables.SaslOptions),
    ("Tiered storage", tables.RemoteOptions),
)

# How code outside this package reads an option; `own` is the configuration of one listener.
_READ = re.compile(r"\b(?:\w*config(?:\(\))?|own)\.(\w+)")
# Options of groups are read by name, with or without the kind of the group.
_NAMED = re.compile(r'"([a-z]+(?:\.[a-z]+)+)"')
_THROUGH = {
    "metadata_topic_config": (
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "metadata.log.segment.bytes",
        "metadata.log.segment.ms",
    ),
    "node_id": ("broker.id",),
    "data_directories": ("log.dirs", "log.dir"),
    "is_compacted": ("cleanup.policy",),
    "is_cordoned": ("cordoned.log.dirs",),
    "is_deleted": ("cleanup.policy",),
    "is_stamped_on_append": ("message.timestamp.type",),
    "is_mirror": ("wirekafka.mirror.promoted", "wirekafka.mirror.source"),
    "is_table": ("wirekafka.table.mode",),
    "waits_for_table": ("wirekafka.table.hold",),
}
_NOT_WHOLLY = {
    "authorizer.class.name": "Only Kafka's `StandardAuthorizer` is supported.",
    "streams.assignor.name": "The only one is `sticky`.",
    "sasl.login.callback.handler.class": "Only Kafka's handlers of OAUTHBEARER are supported, for "
    "logins at other nodes.",
    "sasl.kerberos.kinit.cmd": "A value that is set at run time is not used.",
    "sasl.oauthbearer.jwt.retriever.class": "Only Kafka's own classes are supported.",
    **dict.fromkeys(JAVA_SECURITY, "Other values are refused."),
    **dict.fromkeys(DECIDING_CLASSES, "Only Kafka's own classes are supported."),
}
_IN_THIS_PACKAGE = {
    "config/checks/authorization.py",
    "config/checks/tiered_topic.py",
    "config/endpoints/controllers.py",
    "config/endpoints/listeners.py",
    "config/endpoints/roles.py",
    "config/checks/unsupported_options.py",
}

_HEAD = """\
# Configuration

<!-- Written by `python -m wirekafka.config.docs` from the option table; edit the rows there. -->

wirekafka takes Kafka 4.4's options under Kafka's names, with Kafka's types, defaults and bounds. A
`server.properties` of a KRaft broker can be used as it is.

## Where settings come from

Strongest first:

1. Dynamic settings, kept in the metadata log: of one broker, then of all brokers
   (`wirekafka configs alter broker 1 --set log.retention.ms=60000`, or any Kafka tool).
2. The command line: `wirekafka serve --set num.partitions=3`.
3. The environment, as in Apache's image: `KAFKA_LOG_SEGMENT_BYTES` is `log.segment.bytes`; a double
   underscore stands for `_`, a triple one for `-`.
4. The file: `wirekafka serve --config server.properties`.
5. Kafka's defaults. Without a file, a node with its own controller has these instead:
   {built_in}.

`process.roles`, `node.id` and `controller.listener.names` need not be given; they are then
{node}.

A key that is not a Kafka option is ignored with one warning in the log, and so is an option without
effect that is set to another value than its default. An invalid value prevents
the start, with one line that names key, value, source and reason. Topics refuse both.

Options that would be harmful to ignore prevent the start as well, such as an authorizer other than
Kafka's `StandardAuthorizer`. So do values that contradict each other, at the start as at run time.

These settings are accepted by wirekafka and refused by Apache Kafka 4.4, or the other way around:

| Settings | wirekafka | Why |
|---|---|---|
{differences}

## Log levels

Loggers (`kafka-configs.sh --entity-type broker-loggers`) can be named as in Kafka; these names
stand for the loggers here that report the same: {loggers}.

## How to read the tables

*Update* is whether a running broker accepts a new value: `read-only` needs a restart, `per-broker`
and `cluster-wide` can be altered. Of a listener that runs, TLS stores and limits change; other
options of TLS and SASL apply to listeners that are opened later, as in Kafka. Options that
wirekafka checks and reports, but that have no effect yet, are listed by name below the tables.
"""


def page() -> str:
    """The whole page, as Markdown."""
    used = used_names()
    parts = [_head(), *_overrides("Topics", "topic", TOPIC, used)]
    for title, owner in AREAS:
        parts += _area(f"Broker: {title[0].lower() + title[1:]}", tables.rows(owner), used)
    parts += _overrides("Groups", "group", GROUP, used)
    parts += ["", "## Client metrics", "", "Set per subscription (KIP-714).", ""]
    parts += ["| Option | Type | Default | Values | Meaning |", "|---|---|---|---|---|"]
    parts += [_cells(option) for option in _shown(CLIENT_METRICS, used)]
    parts += _own()
    return "\n".join(parts) + "\n"


def used_names() -> set[str]:
    """Options that code outside this package reads, directly or as a topic option's default."""
    words, names = set(), set()
    for path in _PACKAGE.rglob("*.py"):
        name = path.relative_to(_PACKAGE).as_posix()
        if not name.startswith("config/") or name in _IN_THIS_PACKAGE:
            text = path.read_text(encoding="utf-8")
            words.update(_READ.findall(text))
            names.update(_NAMED.findall(text))
    used = {
        name
        for table in (BROKER, TOPIC, GROUP)
        for name, option in table.items()
        if option.attribute in words
    }
    used.update(name for name in GROUP if {name, name.partition(".")[2]} & names)
    used |= BOUNDING
    used.add("config.providers")  # Replaced while the sources are read.
    used |= CLIENT_METRICS.keys()  # All of them are read when a subscription is.
    # Both have one possible value, and are checked.
    used |= {"group.share.assignors", "streams.assignor.name"}
    used |= DECIDING_CLASSES | JAVA_SECURITY.keys()
    for word in words & _THROUGH.keys():
        used.update(_THROUGH[word])
    for name in used & TOPIC.keys():
        used = used | {follower.name for follower in TOPIC[name].chain}
    return used


def _head() -> str:
    from wirekafka.config.sources import NODE, SINGLE_NODE

    return _HEAD.format(
        built_in=_settings(SINGLE_NODE),
        node=_settings(NODE),
        differences=_differences(),
        loggers=_loggers(),
    )


def _loggers() -> str:
    return ", ".join(f"`{name}` for `{own}`" for name, own in OF_KAFKA.items())


def _differences() -> str:
    lines = []
    for settings, is_accepted, reason in DIFFERENCES:
        given = ", ".join(f"`{name}={text}`" for name, text in settings.items() if text)
        absent = ", ".join(f"no `{name}`" for name, text in settings.items() if not text)
        shown = ", ".join(filter(None, (given, absent)))
        lines.append(f"| {shown} | {'accepts' if is_accepted else 'refuses'} | {reason} |")
    return "\n".join(lines)


def _settings(values: dict[str, str]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in values.items())


def _overrides(title: str, resource: str, table: Table, used: set[str]) -> list[str]:
    return [
        "",
        f"## {title}",
        "",
        f"Set per {resource}; the default is the broker option in the last column.",
        "",
        "| Option | Type | Default | Values | Meaning | Broker option |",
        "|---|---|---|---|---|---|",
        *(f"{_cells(option)} {_follows(option)} |" for option in _shown(table, used)),
        *_lacking(table, used),
    ]


def _area(title: str, table: Table, used: set[str]) -> list[str]:
    lines = ["", f"## {title}", ""]
    options = _shown(table, used)
    if options:
        lines += [
            "| Option | Type | Default | Values | Meaning | Update |",
            "|---|---|---|---|---|---|",
            *(f"{_cells(option)} {option.update.value} |" for option in options),
        ]
    return lines + _lacking(table, used)


def _lacking(table: Table, used: set[str]) -> list[str]:
    names = [
        name for name, option in sorted(table.items()) if name not in used and not option.internal
    ]
    by_reason: dict[str, list[str]] = {}
    for name in names:
        known = [each.name for each in (table[name], *table[name].chain) if each.name in IGNORED]
        by_reason.setdefault(IGNORED[known[0]] if known else "", []).append(f"`{name}`")
    if not by_reason:
        return []
    listed = (
        ", ".join(each) + (f" ({reason})" if reason else "")
        for reason, each in sorted(by_reason.items())
    )
    return ["", "Known, without effect: " + "; ".join(listed) + "."]


def _own() -> list[str]:
    """The settings that Kafka does not have."""
    return [
        "",
        "## Settings of wirekafka and of Confluent Server",
        "",
        "Apache Kafka does not have these settings, and ignores them. They are read at the start.",
        "",
        "| Setting | Meaning |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in OWN.items()),
        *(f"| `{prefix}*` | {meaning} |" for prefix, meaning in PREFIXES.items()),
    ]


def _shown(table: Table, used: set[str]) -> Iterable[Option[Any]]:
    return [
        option
        for name, option in sorted(table.items())
        if name in used and not (table is GROUP and option.internal)
    ]


def _cells(option: Option[Any]) -> str:
    meaning = f"{option.doc} {_NOT_WHOLLY.get(option.name, '')}".rstrip()
    cells = (
        f"`{option.name}`",
        option.type.name.lower(),
        _default(option),
        _values(option),
        meaning,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(option: Option[Any]) -> str:
    if not option.has_default:
        return "-"
    return f"`{text_of(option.default)}`" if text_of(option.default) else "empty"


def _values(option: Option[Any]) -> str:
    if option.type is Type.BOOLEAN:
        return "true, false"
    return (option.check.__doc__ or "").splitlines()[0] if option.check else ""


def _follows(option: Option[Any]) -> str:
    names = [follower.name for follower in option.chain]
    assert len(names) < 2 or names[0] in FAMILIES
    return ", ".join(f"`{name}`" for name in names) or "-"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")

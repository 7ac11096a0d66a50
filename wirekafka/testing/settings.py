"""Converts keyword arguments of tests to Kafka settings, with hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from inspect import Parameter, signature
from pathlib import Path

from wirekafka.config.broker_config import OF_THE_AUTHORIZER, BrokerConfig
from wirekafka.config.checks.similar import did_you_mean
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER, TOPIC
from wirekafka.config.own import OF_SCHEMA_VALIDATION, SCHEMA_REGISTRY_SSL
from wirekafka.config.sources import Setting
from wirekafka.errors import Error

OWNER = "Internal:wirekafka-testing"
"""The principal of a test's own requests. No client can have it: theirs begin with "User:"."""

_PREFIXES = (
    "wirekafka.tier",
    "rsm.config.",
    "rlmm.config.",
    "listener.name.",
    "config.providers.",
    SCHEMA_REGISTRY_SSL,
)

_MORE = (*OF_THE_AUTHORIZER, *OF_SCHEMA_VALIDATION)
"""Options of brokers that are in no table of Kafka's."""

_DIRECTORIES = ("log.dir", "log.dirs")

_FOR_TESTS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.retention.check.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "4",
}
"""Defaults for tests: Kafka's 50 partitions per internal topic, its check of retention every five
minutes and its heartbeats every five seconds are too many and too slow."""


def broker_settings(
    config: Mapping[str, object] | None,
    keywords: Mapping[str, object],
    arguments: Iterable[str] = (),
) -> dict[str, str]:
    """Broker settings by Kafka's names. Raises ValueError for a name that Kafka does not have.

    `arguments` are names that may have been meant as well.
    """
    return {**_FOR_TESTS, **given_settings(config, keywords, arguments)}


def given_settings(
    config: Mapping[str, object] | None,
    keywords: Mapping[str, object],
    arguments: Iterable[str] = (),
) -> dict[str, str]:
    """`broker_settings` without the defaults for tests."""
    settings = {}
    for name, value in {**(config or {}), **keywords}.items():
        known = _known(name, BROKER, "broker config", arguments if name in keywords else ())
        if known in _DIRECTORIES:
            raise ValueError(f"{known}: give the data directory as Broker(directory=...)")
        settings[known] = setting_text(value)
    return settings


@cache
def arguments_of(kind: type) -> tuple[str, ...]:
    """The names of the arguments that a class is created with, beside Kafka's options."""
    return tuple(
        parameter.name
        for parameter in signature(kind).parameters.values()
        if parameter.kind is not Parameter.VAR_KEYWORD
    )


def wanted_topics(topics: Iterable[str] | Mapping[str, int]) -> dict[str, int | None]:
    """Topic names with partition counts; None stands for `num.partitions`. Raises TypeError."""
    if isinstance(topics, str):
        raise TypeError(f"topics={topics!r}: give a list of names, such as [{topics!r}]")
    counts: dict[str, int | None] = {}
    for name in topics:
        count = topics[name] if isinstance(topics, Mapping) else None
        if not isinstance(name, str) or not isinstance(count, int | None):
            raise TypeError(
                f"topics={topics!r}: give names, as ['orders'], or names with numbers"
                " of partitions, as {'orders': 3}"
            )
        counts[name] = count
    return counts


def directory_name(given: object) -> str:
    """A directory argument as text. Raises TypeError, ValueError."""
    if not isinstance(given, str | Path):
        raise TypeError(f"the directory is a path, not {given!r}; topics go as Broker(topics=...)")
    if Path(given).exists() and not Path(given).is_dir():
        raise ValueError(f"{given} is a file; give a directory, or none for a temporary one")
    return str(given)


def topic_settings(config: Mapping[str, object] | None) -> dict[str, str]:
    """A topic's overrides. Raises ValueError for a name that Kafka does not have."""
    return {
        _known(name, TOPIC, "topic config"): setting_text(value)
        for name, value in (config or {}).items()
    }


def checked(settings: Mapping[str, str]) -> BrokerConfig:
    """The parsed broker configuration. Raises ValueError for an invalid value."""
    try:
        # Without a source: it is the call in the test.
        config = BrokerConfig.of({name: Setting(text, "") for name, text in settings.items()})
        refuse_unsupported(config)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return config


def setting_text(value: object) -> str:
    """A value as Kafka writes it: `true`, `8`, `a,b`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ",".join(map(setting_text, value))
    return str(value)


def named_error(error: Error | str | int) -> Error:
    """The error of a name or number. Raises ValueError with similar names, TypeError."""
    if isinstance(error, Error):
        found = error
    elif isinstance(error, int):
        if error not in list(Error):
            raise ValueError(
                f"Kafka has no error {error}; name one, such as 'NOT_LEADER_OR_FOLLOWER'"
            )
        found = Error(error)
    elif isinstance(error, str):
        by_letters = {_letters(name): each for name, each in Error.__members__.items()}
        if _letters(error) not in by_letters:
            raise ValueError(unknown("error", error, Error.__members__))
        found = by_letters[_letters(error)]
    else:
        raise TypeError(f"{error!r} is no error: name one, such as 'NOT_LEADER_OR_FOLLOWER'")
    if found is Error.NONE:
        raise ValueError(
            "NONE is no error: nothing would fail. Name one, such as 'NOT_LEADER_OR_FOLLOWER'"
        )
    return found


def _letters(name: str) -> str:
    """The letters and digits of a name, so that NotLeaderOrFollower is NOT_LEADER_OR_FOLLOWER."""
    return "".join(filter(str.isalnum, name)).lower()


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """An error message for an unknown name, with similar known names."""
    proposal = did_you_mean(given, known, closeness=0.5)
    return f"unknown {kind} {given!r}{proposal and f'; {proposal}'}"


def _known(name: str, table: Mapping[str, object], kind: str, arguments: Iterable[str] = ()) -> str:
    dotted = name if "." in name else name.replace("_", ".")
    if dotted in table or dotted in _MORE or dotted.startswith(_PREFIXES):
        return dotted
    if arguments:
        kind = f"argument or {kind}"
    raise ValueError(unknown(kind, dotted, (*arguments, *table)))

"""The BROKER_LOGGER resource: reads and sets the levels of this broker's loggers (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence

from wirekafka.errors import Error, KafkaError

ROOT = "root"
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
OF_KAFKA = {
    "kafka": "wirekafka",
    "kafka.cluster.Partition": "wirekafka.replication",
    "kafka.controller": "wirekafka.metadata",
    "kafka.coordinator": "wirekafka.coordinator",
    "kafka.coordinator.group": "wirekafka.coordinator",
    "kafka.coordinator.transaction": "wirekafka.coordinator",
    "kafka.log": "wirekafka.log",
    "kafka.network": "wirekafka.server",
    "kafka.network.Processor": "wirekafka.server",
    "kafka.network.RequestChannel$": "wirekafka.server",
    "kafka.raft": "wirekafka.replication.raft",
    "kafka.server": "wirekafka.server",
    "kafka.server.KafkaApis": "wirekafka.server",
    "kafka.server.ReplicaManager": "wirekafka.replication",
    "org.apache.kafka": "wirekafka",
    "org.apache.kafka.controller": "wirekafka.metadata",
    "org.apache.kafka.coordinator": "wirekafka.coordinator",
    "org.apache.kafka.metadata": "wirekafka.metadata",
    "org.apache.kafka.raft": "wirekafka.replication.raft",
    "org.apache.kafka.storage.internals.log": "wirekafka.log",
    "org.apache.kafka.storage.internals.log.LogCleaner": "wirekafka.log",
    "state.change.logger": "wirekafka.metadata",
}
"""Kafka's names of loggers, as in its log4j2.yaml and in runbooks, and the logger here that reports
the same. `kafka.request.logger` and `kafka.authorizer.logger` have Kafka's names here too."""
REQUEST_LOGGER = "kafka.request.logger"
_OWN_NAMES = (REQUEST_LOGGER, "kafka.authorizer.logger")
observers: list[Callable[[], None]] = []
"""Called when levels were set at run time."""
_SET, _DELETE = 0, 1
_OPERATIONS = {2: "APPEND", 3: "SUBTRACT"}


def levels() -> dict[str, str]:
    """The level of every existing logger, by Kafka's name of the level.

    Loggers that Kafka's names stand for are there under both names.
    """
    known = {
        name
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger)
    }
    known.update(OF_KAFKA, _OWN_NAMES)
    found = {name: _level_name(_logger(name)) for name in sorted(known)}
    return {ROOT: _level_name(logging.root), **found}


def alter(changes: Sequence[tuple[str, int, str | None]], *, validate_only: bool) -> None:
    """Set levels, or reset them to the parent's: (logger, operation, level).

    Raises INVALID_REQUEST or INVALID_CONFIG, and then sets none.
    """
    known = levels()
    for name, operation, level in changes:
        _check(name, operation, level, known)
    if validate_only:
        return
    for name, operation, level in changes:
        logger = _logger(name)
        logger.setLevel(_LEVELS[level or ""] if operation == _SET else logging.NOTSET)
    for changed in list(observers):
        changed()


def logs_requests() -> bool:
    """Whether requests are logged: only if that logger itself is set so, not one above it."""
    return logging.NOTSET < logging.getLogger(REQUEST_LOGGER).level <= logging.DEBUG


def _check(name: str, operation: int, level: str | None, known: Container[str]) -> None:
    if operation in _OPERATIONS:
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"{_OPERATIONS[operation]} operation is not allowed for the BROKER_LOGGER resource",
        )
    if operation not in (_SET, _DELETE):
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource",
        )
    if operation == _DELETE and name == ROOT:
        raise KafkaError(
            Error.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
        )
    if name not in known:
        raise KafkaError(Error.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == _SET and level not in _LEVELS:
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as "
            "it is not a supported log level. Valid log levels are "
            f"{', '.join(sorted(_LEVELS))}",
        )


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(OF_KAFKA.get(name, name))


def _level_name(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    return next((name for name, level in _LEVELS.items() if effective >= level), "TRACE")

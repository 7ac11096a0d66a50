"""Loggers can be named as in Kafka."""

import logging

import pytest

from wirekafka.config import loggers

SET, DELETE = 0, 1


@pytest.fixture(autouse=True)
def restored():
    before = {name: logging.getLogger(name).level for name in loggers.OF_KAFKA.values()}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize(("name", "own"), loggers.OF_KAFKA.items())
def test_a_name_of_kafkas_sets_the_level_of_the_logger_here(name, own):
    loggers.alter([(name, SET, "TRACE")], validate_only=False)
    levels = loggers.levels()
    assert levels[name] == "TRACE"
    assert logging.getLogger(own).level == 5
    loggers.alter([(name, DELETE, None)], validate_only=False)
    assert logging.getLogger(own).level == logging.NOTSET


def test_loggers_with_kafkas_names_are_there_before_they_log():
    for name in ("kafka.request.logger", "kafka.authorizer.logger"):
        assert name in loggers.levels()
        loggers.alter([(name, SET, "INFO")], validate_only=True)

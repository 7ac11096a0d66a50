"""Spark in a process of its own, for tests that need other jars than the warm JVM has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Concatenate, ParamSpec, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from compat_tests.spark_session import environment
from spark_examples.session import kafka_session

P = ParamSpec("P")
T = TypeVar("T")
FIRST_ANSWER_S = 300
"""How long the first answer may take: Spark downloads its jars, unless they are in .cache."""


class SparkProcess:
    """Calls functions with the session of another process."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def call(
        self,
        function: Callable[Concatenate[SparkSession, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """The result of a function of a module, which has the session as its first argument."""
        answer = self._executor.submit(_called, function, *arguments, **options)  # type: ignore[arg-type]
        return answer.result(FIRST_ANSWER_S)


@contextmanager
def spark_process(*packages: str, **options: str) -> Iterator[SparkProcess]:
    """A process whose session has the packages; it starts at once, beside the caller."""
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=_start, initargs=(packages, options)
    ) as executor:
        executor.submit(_called, _version)
        yield SparkProcess(executor)
        executor.submit(_called, SparkSession.stop)


_session: list[SparkSession] = []


def _start(packages: tuple[str, ...], options: dict[str, str]) -> None:
    os.environ.pop("SPARK_HOME", None)
    os.environ.update(environment("local[2]"))
    _session.append(kafka_session("compat-tests", *packages, **options))


def _called(function: Callable[..., T], *arguments: object, **options: object) -> T:
    try:
        return function(_session[0], *arguments, **options)
    except PySparkException as error:
        # Spark's own errors hold on to its JVM, and cannot leave the process.
        raise RuntimeError(str(error)) from None


def _version(spark: SparkSession) -> str:
    return spark.version

"""pytest fixtures: a broker or cluster per test, or per session and reset after each test."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wirekafka.testing.plain_imports import import_plainly

if TYPE_CHECKING:
    from wirekafka.testing.broker import Broker
    from wirekafka.testing.cluster.cluster import Cluster

import_plainly()

_MARKER, _CLUSTER_MARKER = "wirekafka", "wirekafka_cluster"
_KEPT = pytest.StashKey["list[Broker | Cluster]"]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "wirekafka(**options): options of wirekafka.Broker for the wirekafka_broker"
        " fixture: topics=..., config={...}, or any Kafka config as a keyword",
    )
    config.addinivalue_line(
        "markers",
        "wirekafka_cluster(**options): options of wirekafka.Cluster for the wirekafka_cluster"
        " fixture: brokers=..., controllers=..., topics=..., or any Kafka config as a keyword",
    )


@pytest.fixture
def wirekafka_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A new broker, with the options of the test's `wirekafka` markers."""
    # Imported on first use: every run of pytest imports this plugin.
    from wirekafka.testing.broker import Broker

    with Broker(**_options(request, _MARKER)) as broker:
        request.node.stash.setdefault(_KEPT, []).append(broker)
        yield broker


@pytest.fixture(scope="session")
def wirekafka_prepared() -> str:
    """The directory that `wirekafka_branch` begins with: define a fixture of this name."""
    raise pytest.UsageError(
        "wirekafka_branch needs a session fixture wirekafka_prepared that returns the directory"
        " of a snapshot, or of a broker that was stopped"
    )


@pytest.fixture
def wirekafka_branch(
    request: pytest.FixtureRequest, wirekafka_prepared: str | Path
) -> Iterator[Broker]:
    """A broker of the test's own on the data of `wirekafka_prepared`, which does not change."""
    from wirekafka.testing.broker import Broker

    with Broker.from_snapshot(wirekafka_prepared, **_options(request, _MARKER)) as broker:
        request.node.stash.setdefault(_KEPT, []).append(broker)
        yield broker


@pytest.fixture
def wirekafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A new cluster of three brokers, or with the options of `wirekafka_cluster` markers."""
    from wirekafka.testing.cluster.cluster import Cluster

    with Cluster(**_options(request, _CLUSTER_MARKER)) as cluster:
        request.node.stash.setdefault(_KEPT, []).append(cluster)
        yield cluster


@pytest.fixture(scope="session")
def _wirekafka_shared() -> Iterator[Broker]:
    from wirekafka.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def wirekafka_session_broker(
    request: pytest.FixtureRequest, _wirekafka_shared: Broker
) -> Iterator[Broker]:
    """A broker shared by all tests of the session (of a pytest-xdist worker), reset after each."""
    if any(request.node.iter_markers(_MARKER)):
        raise pytest.UsageError(
            "the wirekafka marker is for wirekafka_broker: wirekafka_session_broker is shared, and"
            " cannot be configured by a test"
        )
    request.node.stash.setdefault(_KEPT, []).append(_wirekafka_shared)
    yield _wirekafka_shared
    try:
        _wirekafka_shared.reset()
    except RuntimeError:
        _wirekafka_shared.start()  # The test has stopped it; the next one needs it.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last requests of clients to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed:
        for broker in item.stash.get(_KEPT, []):
            report.sections.append((f"requests of {broker!r}", _requests(broker)))
    return report


def _requests(broker: Broker | Cluster) -> str:
    try:
        return str(broker.requests)
    except RuntimeError as error:
        return str(
            error
        )  # The test has stopped the broker; its failure must be reported all the same.


def _options(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """The options of all markers; the closest marker takes precedence."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(name))):
        if marker.args:
            raise pytest.UsageError(f"write @pytest.mark.{name}(name=value), not {marker.args!r}")
        options |= marker.kwargs
    return options

"""`Broker.from_snapshot`, and the fixture that gives each test a branch of prepared data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer

import wirekafka
from tests.eventually import eventually

pytest_plugins = "pytester"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("prepared") / "data"
    with wirekafka.Broker(directory, topics=["orders"]) as broker:
        broker.produce("orders", ["a", "b"])
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "left-open"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", "undecided")
        assert producer.flush(30) == 0
    return directory


def files(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_branch_begins_with_the_data_and_leaves_it_as_it_is(prepared: Path) -> None:
    before = files(prepared)
    for number in range(2):
        with wirekafka.Broker.from_snapshot(prepared) as broker:
            values = [record.value for record in broker.records("orders")]
            assert values[:2] == [b"a", b"b"], number
            broker.produce("orders", ["c"])
            broker.create_topic("made-in-the-branch")
            broker.restart()
            assert "made-in-the-branch" in broker.topics()
            assert not Path(broker.directory).is_relative_to(prepared)
    assert files(prepared) == before


def test_transactions_that_were_open_are_aborted_in_a_branch(prepared: Path) -> None:
    with wirekafka.Broker.from_snapshot(prepared) as broker:

        def outcomes() -> list[str | None]:
            return [record.transaction for record in broker.records("orders")]

        eventually(lambda: outcomes() == [None, None, "aborted"] or None)


def test_a_directory_in_use_or_without_data_is_refused(tmp_path: Path) -> None:
    with wirekafka.Broker(tmp_path / "data"), pytest.raises(ValueError, match="in use"):
        wirekafka.Broker.from_snapshot(tmp_path / "data").start()
    with pytest.raises(ValueError, match="no log directory"):
        wirekafka.Broker.from_snapshot(tmp_path).start()
    with pytest.raises(TypeError, match="temporary directory"):
        wirekafka.Broker.from_snapshot(tmp_path / "data", directory=tmp_path / "other")
    assert os.listdir(tmp_path) == ["data"]


def test_each_test_has_a_branch_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import wirekafka

        @pytest.fixture(scope="session")
        def wirekafka_prepared(tmp_path_factory):
            directory = tmp_path_factory.mktemp("prepared") / "data"
            with wirekafka.Broker(directory) as broker:
                broker.produce("orders", ["1"])
            return directory

        @pytest.mark.parametrize("turn", [1, 2])
        def test_the_data_is_as_prepared(wirekafka_branch, turn):
            assert len(wirekafka_branch.records("orders")) == 1
            wirekafka_branch.produce("orders", ["2"])
        """
    )
    pytester.runpytest("-p", "no:xdist").assert_outcomes(passed=2)


def test_the_fixture_says_what_it_needs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(wirekafka_branch): ...")
    result = pytester.runpytest("-p", "no:xdist")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs a session fixture wirekafka_prepared*"])

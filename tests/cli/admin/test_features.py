"""`wirekafka features`."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.admin.conftest import RunJson, assert_refused, table
from tests.cli.conftest import Run
from wirekafka.client.admin.features import ChangeKind, level_of, newest_release, update_features
from wirekafka.client.client import CliError
from wirekafka.metadata.controller.features import INITIAL, SUPPORTED


def test_the_features_are_listed(run: Run, run_json: RunJson) -> None:
    found = {each["feature"]: each for each in run_json("features", "list")}
    assert found["metadata.version"] == {
        "feature": "metadata.version",
        "level": INITIAL["metadata.version"],
        "name": "4.4-IV2",
        "lowest": 7,
        "highest": 33,
    }
    assert found.keys() == SUPPORTED.keys()
    shown = table(run("features", "list"))
    assert shown[0] == ["FEATURE", "LEVEL", "NAME", "LOWEST", "HIGHEST"]


def test_levels_go_down_and_up_again(run: Run, run_json: RunJson) -> None:
    def level() -> int:
        found = {each["feature"]: each["level"] for each in run_json("features", "list")}
        return int(found["streams.version"])

    outcome = run("features", "downgrade", "streams.version=0", "--dry-run")
    assert (outcome.status, outcome.err) == (0, "could set streams.version to 0\n")
    assert level() == 1
    assert run("features", "downgrade", "streams.version=0").err == "set streams.version to 0\n"
    assert level() == 0
    assert run("features", "upgrade", "streams.version=1").status == 0
    assert level() == 1
    assert run("features", "disable", "streams.version").status == 0
    assert level() == 0
    assert run("features", "upgrade", "streams.version=1").status == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("upgrade", "streams.version=7"), "Invalid update version 7 for feature streams.version"),
        (("upgrade", "streams.version=new"), "bad level 'new' of streams.version"),
        (("upgrade", "streams.version"), "expected KEY=VALUE"),
        (("upgrade", "metadata.version=9.9"), "bad level '9.9' of metadata.version"),
        (("upgrade", "metadata.version=4.0"), "without setting the upgrade type"),
        (("downgrade", "metadata.version=4.0"), "might delete metadata information"),
        (("downgrade", "metadata.version=4.0", "--unsafe"), "Unsafe metadata downgrade"),
        (("disable", "no.such.feature"), "no.such.feature"),
    ],
)
def test_a_change_that_is_refused_is_one_line(
    run: Run, words: tuple[str, ...], reason: str
) -> None:
    assert_refused(run("features", *words), reason)


@pytest.mark.parametrize(
    ("text", "level"),
    [("7", 7), ("4.0", 25), ("4.0-IV1", 23), ("3.7.2", 19), ("3.3", 7), ("4.4-IV2", 33)],
)
def test_a_level_of_metadata_version_is_a_number_or_a_release(text: str, level: int) -> None:
    assert level_of("metadata.version", text) == level


@pytest.mark.parametrize("text", ["4.", "", "4.0-IV9", "-1", "²", "1234567"])
def test_other_texts_are_no_levels(text: str) -> None:
    with pytest.raises(CliError, match="bad level"):
        level_of("metadata.version", text)


def test_the_release_of_a_broker_is_known_from_its_levels() -> None:
    assert newest_release({"metadata.version": (7, 25)}) == "4.0"
    assert newest_release({"metadata.version": (7, 99)}) is None
    assert newest_release({}) is None


@pytest.mark.parametrize(
    ("kind", "dry_run", "reason"),
    [
        (ChangeKind.UPGRADE, True, "too old to validate"),
        (ChangeKind.UNSAFE_DOWNGRADE, False, "too old for unsafe downgrades"),
    ],
)
def test_an_old_broker_is_not_asked_for_what_it_cannot_do(
    kind: ChangeKind, dry_run: bool, reason: str
) -> None:
    old: Any = SimpleNamespace(any=lambda: SimpleNamespace(version_of=lambda request: 0))
    with pytest.raises(CliError, match=reason):
        update_features(old, {"metadata.version": 7}, kind, dry_run=dry_run)

"""The recorded answers belong to the cases, and the cases are known by their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wirekafka.conformance import recordings
from wirekafka.conformance.case import Book, Case, ConformanceLevel
from wirekafka.conformance.cases import all_cases, books
from wirekafka.conformance.expectation import ANYTHING
from wirekafka.conformance.recordings import RELEASES, entries, numbers, of_case, ranges, text_of
from wirekafka.conformance.reports.remarks import ADVERTISED, advertised
from wirekafka.protocol.metadata import MetadataRequest

FOLDER = Path(recordings.__file__).parent
FILES = sorted(path for path in FOLDER.rglob("*.json") if path.name != ADVERTISED)


def file_of(path: Path) -> str:
    """The name of a recording as cases have it, such as "hostile/fetch"."""
    return path.relative_to(FOLDER).with_suffix("").as_posix()


def test_names_of_cases_are_unique() -> None:
    names = [each.name for each in all_cases()]
    assert sorted(set(names)) == sorted(names)


def test_every_book_has_a_recording_of_its_own() -> None:
    files = [book.cases[0].file for book in books()]
    assert sorted(set(files)) == sorted(files)


def test_every_case_has_a_recording() -> None:
    assert [each.name for each in all_cases() if not of_case(each)] == []


@pytest.mark.parametrize("path", FILES, ids=file_of)
def test_every_recording_belongs_to_a_case(path: Path) -> None:
    cases = {each.title: each for each in all_cases() if each.file == file_of(path)}
    recorded = json.loads(path.read_text())
    assert [title for title in recorded if title not in cases] == []
    for title, found in recorded.items():
        played = {version for entry in found for version in numbers(entry["versions"])}
        assert [each for each in played if not cases[title].has_version(each)] == [], title
        assert {name for entry in found for name in entry["kafka"].split()} <= set(RELEASES)


def test_no_expectation_leaves_everything_open() -> None:
    assert [
        f"{case.name} v{version}"
        for case in all_cases()
        for versions in of_case(case).values()
        for version, answers in versions.items()
        if not isinstance(answers, dict) or not answers or ANYTHING in answers.values()
    ] == []


@pytest.mark.parametrize("path", FILES, ids=file_of)
def test_a_file_is_written_as_it_was_read(path: Path) -> None:
    cases = {each.title: of_case(each) for each in all_cases() if each.file == file_of(path)}
    order = json.loads(path.read_text())
    assert text_of({title: cases[title] for title in order}) == path.read_text()


def test_equal_answers_of_releases_and_versions_are_together() -> None:
    answer, other = {"1 a": 1}, {"1 a": 2}
    recorded = {"3.9": {3: answer, 4: answer}, "4.4": {3: answer, 4: answer, 5: other}}
    assert entries(recorded) == [
        {"kafka": "3.9 4.4", "versions": "3-4", "answers": answer},
        {"kafka": "4.4", "versions": "5", "answers": other},
    ]


def test_ranges_of_versions_are_read_as_they_are_written() -> None:
    assert ranges([5, 0, 1, 2, 7, 8]) == "0-2,5,7-8"
    assert numbers("0-2,5,7-8") == [0, 1, 2, 5, 7, 8]


def test_advertised_versions_are_known_of_every_release() -> None:
    assert advertised()["0 Produce"].keys() == set(RELEASES)
    assert all(each.partition(" ")[0].isdigit() for each in advertised())


def test_a_book_refuses_two_cases_of_one_name() -> None:
    book = Book(MetadataRequest, "metadata", ConformanceLevel.CORE, "KIP-1")
    book.ask("all topics", lambda stage: MetadataRequest())
    with pytest.raises(AssertionError, match="metadata/all-topics"):
        book.ask("All topics!", lambda stage: MetadataRequest())


def test_cases_say_where_what_is_right_is_written() -> None:
    def is_complete(case: Case) -> bool:
        return bool(case.source and case.area and case.title and case.versions)

    assert [each.name for each in all_cases() if not is_complete(each)] == []


def test_versions_are_shown_as_schemas_have_them() -> None:
    book = Book(MetadataRequest, "metadata", ConformanceLevel.CORE, "KIP-1")
    book.ask("a", lambda stage: MetadataRequest(), versions="3,9,12-13")
    book.ask("b", lambda stage: MetadataRequest())
    assert [each.shown_versions for each in book.cases] == ["3,9,12-13", "0+"]

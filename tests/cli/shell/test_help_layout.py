"""The help of `wirekafka serve`, which is parsed without typer, looks as the help of others."""

import re

import pytest

from tests.cli.conftest import Run
from wirekafka.cli import serve


@pytest.fixture
def helps(run: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    monkeypatch.setenv("COLUMNS", "200")
    return {name: run(name, "--help").out.splitlines() for name in ("serve", "elect")}


def test_both_have_the_same_headings(helps: dict[str, list[str]]) -> None:
    for name, lines in helps.items():
        assert lines[0].rstrip() == f"Usage: wirekafka {name} [OPTIONS]"
        assert lines[1] == "" and re.match(r"  [A-Z][a-z].*\.$", lines[2])
        assert "Options:" in lines
        assert any(re.match(r"  (-h, )?--help +Show this message and exit\.$", x) for x in lines)


def test_options_and_their_texts_begin_in_the_same_columns(helps: dict[str, list[str]]) -> None:
    columns = {
        name: {
            len(found[0])
            for line in lines[lines.index("Options:") + 1 :]
            if (found := re.match(r"  -.*?  +(?=[A-Z])", line))
        }
        for name, lines in helps.items()
    }
    assert columns["serve"] == columns["elect"] == {34}
    assert max(map(len, helps["serve"])) <= 80


def test_every_option_is_in_the_help_with_a_sentence(helps: dict[str, list[str]]) -> None:
    text = " ".join(" ".join(helps["serve"]).split())
    for action in serve.options():
        assert action.option_strings[-1] in text
        help_text = action.help or ""
        assert action.dest == "help" or f"{help_text[0].upper()}{help_text[1:]}."[:20] in text
    assert text.endswith("is refused.")

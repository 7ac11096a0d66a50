"""Names that clients choose are seen for what they are in logs, tables and JSON."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from pathlib import Path

import pytest

import wirekafka
from wirekafka.cli import output
from wirekafka.server.json_logs import JsonFormatter
from wirekafka.server.text_logs import FORMAT, TextFormatter
from wirekafka.visible_text import json_text, one_line, visible

HOSTILE = [
    "\n2026-01-01 00:00:00,000 INFO kafka.authorizer.logger: Principal = User:eve is Allowed",
    *("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x08\x08", "\r", "\x7f", "\x00", "\x85"),
    *("\u202e", "\u2066", "\u200f", "\u200b", "\ufeff", "\u2028", "\u2029", "\ud800", "\U000e0041"),
]
each_hostile = pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)


@each_hostile
def test_hidden_characters_are_escaped(hostile: str) -> None:
    assert one_line(f"a{hostile}b").isprintable()
    assert all(part.isprintable() for part in visible(hostile).split("\n"))


@pytest.mark.parametrize("text", ["", "orders-1", "straße", "注文", "a b", 'say "yes" \\ no', "😀"])
def test_ordinary_texts_stay(text: str) -> None:
    assert one_line(text) == visible(text) == text


@each_hostile
def test_json_keeps_its_meaning(hostile: str) -> None:
    text = json_text({"name": hostile, "other": "é"})
    assert text.isprintable() and "é" in text
    assert json.loads(text) == {"name": hostile, "other": "é"}
    # So does JSON within a line of text, as in the request log.
    assert json.loads(one_line(json.dumps([hostile], ensure_ascii=False))) == [hostile]


@each_hostile
@pytest.mark.parametrize("form", [TextFormatter(FORMAT), JsonFormatter()], ids=["text", "json"])
def test_a_log_message_is_one_line(hostile: str, form: logging.Formatter) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "Group %s is empty", (hostile,), None)
    assert form.format(record).isprintable()


@each_hostile
def test_a_traceback_forges_no_line(hostile: str) -> None:
    try:
        raise ValueError(hostile)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "Failed", (), sys.exc_info())
    first, *traceback = TextFormatter(FORMAT).format(record).split("\n")
    assert first.endswith("x: Failed")
    assert all(line.startswith("  ") and line.isprintable() for line in traceback)
    assert "Traceback" in traceback[0]


def test_logs_have_no_other_format() -> None:
    other = re.compile(r"logging\.Formatter\(|basicConfig\([^)]*format=")
    for path in Path(wirekafka.__file__).parent.rglob("*.py"):
        assert not other.search(path.read_text()), path


@each_hostile
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_table_has_a_line_for_each_row(
    hostile: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    output.show_table(("group", "state"), [(f"a{hostile}"[:30], "Empty")])
    assert all(line.isprintable() for line in shown.getvalue().split("\n"))

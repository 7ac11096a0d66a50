"""Texts of others on screens and in logs: characters that are not seen are written as escapes.

Names of groups, topics and clients may have line ends, which would forge lines of a log, sequences
that control a terminal, and characters that change the direction of what follows.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Categories of Unicode: controls, formats, private use, surrogates, and separators of lines."""
_DELETE = "\x7f"


def one_line(text: str) -> str:
    """The text with hidden characters escaped as in JSON; in the text of a JSON value it stays one.

    Without hidden characters it is the same text.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(each) if _is_hidden(each) else each for each in text)


def visible(text: str) -> str:
    """As `one_line`, but line ends and tabulators stay."""
    if text.isprintable():
        return text
    return "".join(
        _escaped(each) if _is_hidden(each) and each not in "\n\t" else each for each in text
    )


def json_text(value: Any) -> str:
    """JSON on one line, in which letters of all languages stay and hidden characters do not."""
    return one_line(json.dumps(value, ensure_ascii=False))


def _is_hidden(character: str) -> bool:
    return not character.isprintable() and unicodedata.category(character) in _HIDDEN


def _escaped(character: str) -> str:
    return "\\u007f" if character == _DELETE else json.dumps(character)[1:-1]

"""Docstrings, comments and documents have nouns, not pronouns, which are read twice."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_layout import PACKAGE, ROOT

PRONOUNS = re.compile(
    r"\b(that which|those which|those that|those who|those whose|that of|those of"
    r"|(the )?ones? (that|which|whose|of (it|them|those))|of it, which|the first of it)\b",
    re.IGNORECASE,
)
"""A pronoun that stands for a noun: "those of clients" are connections, or requests, or quotas."""

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

each_folder = pytest.mark.parametrize(
    "folder", sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
)


@each_folder
def test_docstrings_and_comments_have_nouns_in_place_of_pronouns(folder: str) -> None:
    assert found_in((PACKAGE / folder).rglob("*.py")) == []


def test_modules_beside_the_folders_have_nouns_in_place_of_pronouns() -> None:
    assert found_in(PACKAGE.glob("*.py")) == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_documents_have_nouns_in_place_of_pronouns(page: Path) -> None:
    prose = re.sub(
        r"^```.*?^```$|\"[^\"\n]*\"", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    assert list(found_pronouns(prose)) == []


@pytest.mark.parametrize(
    "text",
    ["The order is that of Kafka.", "Return those\n    that are left.", "The one which it was."],
)
def test_a_pronoun_is_found_across_lines(text: str) -> None:
    assert list(pronouns(f'"""{text}"""\n'))
    assert list(pronouns("".join(f"# {line}\n" for line in text.split("\n"))))


def found_in(paths: Iterator[Path]) -> list[str]:
    return [
        f"{path.relative_to(PACKAGE)}: {found}"
        for path in sorted(paths)
        for found in pronouns(path.read_text())
    ]


def pronouns(source: str) -> Iterator[str]:
    """Each pronoun in the docstrings and comments of a module, with the words around it."""
    for text in (*docstrings(source), comments(source)):
        yield from found_pronouns(text)


def found_pronouns(text: str) -> Iterator[str]:
    """Each pronoun in a text, with the words around it."""
    flat = " ".join(text.split())
    for match in PRONOUNS.finditer(flat):
        yield flat[max(0, match.start() - 40) : match.end() + 20]


def docstrings(source: str) -> Iterator[str]:
    """The texts that stand as statements: docstrings of modules, definitions and attributes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def comments(source: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)

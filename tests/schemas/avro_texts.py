"""Texts of Avro schemas with peculiarities, most of which Java's library has an own opinion of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TEXTS = (
    *Path(__file__).with_suffix(".txt").read_text().splitlines(),
    "",
    ' "int" ',
    '// comment\n"int"',
    '#comment\n"int"',
    '{"type":"int","x":"\t"}',
    '\ufeff"int"',
)
"""One on each line of the text file, and a few with characters that files lose."""


class WithReferences(NamedTuple):
    """A text that may use the types of other texts."""

    references: Sequence[str]
    text: str


_EMPTY_ENUM = '{"type":"enum","name":"A","symbols":[]}'
_EMPTY_RECORD = '{"type":"record","name":"B","fields":[]}'
_USES_B = '{"type":"record","name":"A","fields":[{"name":"b","type":"B"}]}'
_USES_A = '{"type":"record","name":"R","fields":[{"name":"a","type":"A"}]}'

REFERENCES = (
    WithReferences(['"int"'], '"string"'),
    WithReferences([_EMPTY_RECORD], _EMPTY_RECORD),
    WithReferences([_EMPTY_RECORD], '["null","B"]'),
    WithReferences([_EMPTY_ENUM], _EMPTY_ENUM),
    WithReferences([_EMPTY_ENUM], '"A"'),
    WithReferences([_EMPTY_ENUM], '["null","A"]'),
    WithReferences([_EMPTY_ENUM], '{"type":"array","items":"A"}'),
    WithReferences([_EMPTY_ENUM], '{"type":"map","values":{"type":"A","p":1}}'),
    WithReferences([_USES_B, _EMPTY_RECORD], _USES_A),
    WithReferences([_EMPTY_RECORD, _USES_B], _USES_A),
    WithReferences(
        ['{"type":"record","name":"n.A","fields":[]}'],
        '{"type":"record","name":"n.R","fields":[{"name":"a","type":"A"}]}',
    ),
    WithReferences(
        ['{"type":"record","name":"n.A","fields":[]}'],
        '{"type":"record","name":"m.R","fields":[{"name":"a","type":"n.A"}]}',
    ),
    WithReferences(
        ['{"type":"record","name":"n.A","fields":[]}'],
        '{"type":"record","name":"m.R","fields":[{"name":"a","type":"A"}]}',
    ),
)

"""The syntax tree of .proto source, by proto-schema-parser, for texts of bounded size and depth."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any, NoReturn

from antlr4.error.ErrorListener import ErrorListener
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from wirekafka.schemas.schema import SchemaError

MAX_TEXT_CHARS = 1 << 20
MAX_TOKENS = 50_000
"""Of the parser's, which reads some 25,000 a second."""
MAX_NESTING = 40
"""Of brackets: messages in messages, and their options. protoc allows 32 messages."""
_LAST_OPTIONS = {"default": 1, "json_name": 2}
_MAX_DIGITS = 400
_MAX_REASON_CHARS = 200

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\[^\n])*\"|'(?:[^'\\\n]|\\[^\n])*')"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol>[;=,.(){}\[\]<>:/+-])",
    re.DOTALL,
)
_NO_NEWLINE = re.compile(r"[^\n]")
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9a-fA-F]{1,2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<other>.))",
    re.DOTALL,
)
_ESCAPED_CHARS = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_OPENING, _CLOSING = frozenset("{[(<"), frozenset("}])>")

_parser_lock = threading.Lock()
"""The tables of the grammar, which grow while texts are parsed, are shared by all parsers."""


def syntax_tree(text: str) -> ast.File:
    """The tree of a source, without its comments. Raises SchemaError.

    Strings in the tree are what stands between double quotes in source, escaped as `escaped` does.
    """
    plain = _without_comments(text)
    errors = _FirstError()

    def listen(recognizer: Any) -> None:
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(errors)

    with _parser_lock:
        try:
            tree = Parser(setup_lexer=listen, setup_parser=listen).parse(plain)
        except SchemaError:
            raise
        except RecursionError:
            raise SchemaError("Could not parse Protobuf - nested too deeply") from None
        except (ValueError, AttributeError, TypeError) as error:
            # Such as a number that is none, of which the library makes an int.
            raise SchemaError(f"Could not parse Protobuf - {error}"[:_MAX_REASON_CHARS]) from error
    _move_last(tree.file_elements)
    return tree


def escaped(value: bytes) -> str:
    """Bytes as they stand between double quotes: text as it is, what is no text in octal."""
    try:
        chars = value.decode()
    except UnicodeDecodeError:
        chars = value.decode("latin-1")
        return "".join(_ESCAPES.get(char) or _in_ascii(char) for char in chars)
    return "".join(
        _ESCAPES.get(char) or (char if char >= " " and char != "\x7f" else _in_ascii(char))
        for char in chars
    )


def unescaped(inner: str) -> bytes:
    """The bytes of what stands between the quotes of a string."""
    parts, end = [], 0
    for match in _ESCAPE.finditer(inner):
        parts += [inner[end : match.start()].encode(), _escaped_bytes(match)]
        end = match.end()
    return b"".join([*parts, inner[end:].encode()])


class _FirstError(ErrorListener):  # type: ignore[misc]
    """Ends the parsing at the first error, which the parser would mend and go on."""

    def syntaxError(
        self, recognizer: Any, symbol: Any, line: int, column: int, message: str, error: Any
    ) -> NoReturn:
        # What follows is each token that would have been allowed.
        _refuse(line, column + 1, message.split(" expecting {", 1)[0])


def _move_last(elements: Iterable[object]) -> None:
    """The options of fields that descriptors do not have among the options, behind the others."""
    for each in elements:
        match each:
            case ast.Field() | ast.MapField():
                each.options.sort(key=lambda option: _LAST_OPTIONS.get(option.name, 0))
            case ast.Message() | ast.Group() | ast.OneOf() | ast.Extension():
                _move_last(each.elements)


def _without_comments(text: str) -> str:
    """A source in which each string and number is one token, as the library reads them."""
    if len(text) > MAX_TEXT_CHARS:
        raise SchemaError(f"The schema has {len(text)} characters, more than {MAX_TEXT_CHARS}")
    plain = _PlainSource(text)
    position = int(text.startswith("\ufeff"))
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            _refuse(*_place(text, position), f"unexpected {text[position]!r}")
        position = match.end()
        if match.lastgroup in ("space", "comment"):
            plain.add_space(match[0])
        else:
            plain.add_token(match)
    return "".join(plain.pieces)


class _PlainSource:
    """The source for the library, whose tokens have the lines and columns of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.pieces: list[str] = []
        self._tokens = 0
        self._depth = 0
        self._last = [-1] * 4
        """The indexes of the last pieces that are tokens, the newest last."""
        self._angles: list[str] = []

    def add_space(self, piece: str) -> None:
        self.pieces.append(piece if piece.isspace() else _NO_NEWLINE.sub(" ", piece))

    def add_token(self, match: re.Match[str]) -> None:
        piece, before = match[0], self._before(1)
        self._count(match)
        if match.lastgroup == "string":
            piece = f'"{escaped(unescaped(piece[1:-1]))}"'
            if before.startswith('"'):  # Adjacent strings are one.
                self._extend(before[:-1] + piece[1:])
                return
        elif match.lastgroup == "number":
            piece = _decimal(piece)
            if before == "-":
                self._extend("-" + piece)
                return
        elif piece == "<":
            # The library reads only `{}` around a literal; `map<string, int32>` is none.
            self._angles.append("<>" if before == "map" else "{}")
            piece = self._angles[-1][0]
        elif piece == ">" and self._angles:
            piece = self._angles.pop()[1]
        elif piece == "[" and self._before(4) == "group" and self._before(2) == "=":
            # The library would leave them out.
            _refuse(*_place(self._text, match.start()), "a group has no options")
        self._last = [*self._last[1:], len(self.pieces)]
        self.pieces.append(piece)

    def _before(self, distance: int) -> str:
        """The token before the next one, or the token before that."""
        index = self._last[-distance]
        return self.pieces[index] if index >= 0 else ""

    def _extend(self, piece: str) -> None:
        self.pieces[self._last[-1]] = piece

    def _count(self, match: re.Match[str]) -> None:
        self._tokens += 1
        self._depth += (match[0] in _OPENING) - (match[0] in _CLOSING)
        if self._tokens > MAX_TOKENS:
            raise SchemaError(f"The schema has more than {MAX_TOKENS} tokens")
        if self._depth > MAX_NESTING:
            _refuse(*_place(self._text, match.start()), "nested too deeply")


def _decimal(number: str) -> str:
    if len(number) > _MAX_DIGITS:
        raise SchemaError("Could not parse Protobuf - a number is too long")
    if number[:2] in ("0x", "0X"):
        return str(int(number, 16))
    if len(number) > 1 and number[0] == "0" and number.isdigit():
        try:
            return str(int(number, 8))
        except ValueError:
            raise SchemaError(f"Could not parse Protobuf - no octal number: {number}") from None
    return number


def _escaped_bytes(match: re.Match[str]) -> bytes:
    if match["octal"] is not None:
        return bytes([int(match["octal"], 8) & 0xFF])
    if match["hex"] is not None:
        return bytes([int(match["hex"], 16)])
    code = match["short"] or match["long"]
    if code is None:
        char = match["other"]
        return bytes([_ESCAPED_CHARS[char]]) if char in _ESCAPED_CHARS else char.encode()
    try:
        return chr(int(code, 16)).encode()
    except (ValueError, OverflowError):
        raise SchemaError(f"Could not parse Protobuf - no character: {match[0]}") from None


def _in_ascii(char: str) -> str:
    return char if " " <= char < "\x7f" else f"\\{ord(char):03o}"


def _place(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _refuse(line: int, column: int, reason: str) -> NoReturn:
    raise SchemaError(
        f"Could not parse Protobuf - Syntax error in :{line}:{column}: {reason[:_MAX_REASON_CHARS]}"
    )

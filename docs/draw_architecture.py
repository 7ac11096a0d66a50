"""Draws build/architecture.svg from the sources: layers, their modules, and who imports whom.

`python -m docs.draw_architecture` writes the file. The same sources give the same bytes.
"""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tests.test_layout import LAYERS, PACKAGE, ROOT

TARGET = ROOT / "build" / "architecture.svg"

_WIDTH = 1400
_MARGIN = 32
_TOP = 176
_GAP = 10
_ABOUT_AT, _ABOUT_CHARACTERS = _MARGIN + 20, 38
_CHIPS_AT, _CHIPS_END = 320, 1010
_CHIP_HEIGHT, _CHIP_STEP, _CHIP_FONT = 19, 24, 11
_CHARACTER = 0.602 * _CHIP_FONT
"""How wide a character of a monospaced font is."""
_MATRIX_AT, _MATRIX_STEP = 1042, 24
_ROUNDED_TO = 100
"""Lines of code are rounded, so that not every change of a file changes the picture."""

_COLOURS = {
    "cli": "#7c5cbf",
    "console": "#7c5cbf",
    "spark": "#7c5cbf",
    "doctor": "#7c5cbf",
    "conformance": "#7c5cbf",
    "testing": "#7c5cbf",
    "client": "#7c5cbf",
    "registry": "#2f6fb7",
    "web": "#2f6fb7",
    "server": "#2f6fb7",
    "apis": "#2f6fb7",
    "broker": "#1f8a8a",
    "controller": "#1f8a8a",
    "coordinator": "#2e8b57",
    "telemetry": "#2e8b57",
    "metadata": "#2e8b57",
    "replication": "#2e8b57",
    "reader": "#b7791f",
    "snapshot": "#b7791f",
    "translation": "#975a16",
    "tables": "#b7791f",
    "tiered": "#b7791f",
    "runtime": "#2e8b57",
    "schemas": "#b4533c",
    "security": "#a23e6b",
    "quotas": "#a23e6b",
    "metrics": "#a23e6b",
    "log": "#b7791f",
    "protocol": "#b4533c",
    "codec": "#b4533c",
    "config": "#6b7280",
    "visible_text": "#6b7280",
    "regex": "#6b7280",
    "bounded_memory": "#6b7280",
    "clock": "#6b7280",
    "errors": "#6b7280",
}
_INK, _GREY, _PALE = "#1f2933", "#5b6770", "#e4e8ec"
_STYLE = f"""
text {{ font-family: Inter, "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif; }}
.title {{ font-size: 25px; font-weight: 700; fill: {_INK}; }}
.subtitle {{ font-size: 14px; fill: {_GREY}; }}
.layer {{ font-size: 17px; font-weight: 700; }}
.about {{ font-size: 12px; fill: {_GREY}; }}
.lines {{ font-size: 11px; fill: {_GREY}; }}
.column {{ font-size: 12px; fill: {_INK}; }}
.count {{ font-size: 9px; font-weight: 600; fill: #ffffff; text-anchor: middle; }}
.module {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
           font-size: {_CHIP_FONT}px; fill: {_INK}; text-anchor: middle; }}
"""


@dataclass(frozen=True)
class Layer:
    """One layer as its sources describe it. `imports` counts importing modules by layer."""

    name: str
    about: str
    modules: tuple[str, ...]
    lines: int
    imports: Counter[str]

    @property
    def is_one_file(self) -> bool:
        return self.modules == (self.name,)


def layers() -> list[Layer]:
    """All layers, top to bottom."""
    return [_layer(name) for name in reversed(LAYERS)]


def drawing() -> str:
    """The picture as SVG."""
    found = layers()
    body: list[str] = []
    y = _TOP
    for layer in found:
        height = _height(layer)
        body += _band(layer, y, height)
        body += _matrix_row(layer, [each.name for each in found], y, height)
        y += height + _GAP
    height = y + 56
    total = sum(layer.lines for layer in found)
    modules = sum(len(layer.modules) for layer in found)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" role="img">',
            "<title>The layers of wirekafka</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            _text(_MARGIN, 52, "title", "wirekafka, layer by layer"),
            _text(
                _MARGIN,
                80,
                "subtitle",
                f"{modules} modules, about {_rounded(total)} lines. A module imports from its own "
                "layer and from those below it.",
            ),
            *_columns([each.name for each in found], y - _GAP),
            *body,
            _text(
                _MARGIN,
                y + 26,
                "subtitle",
                "Right: how many modules of the layer in a row import the layer in a column. "
                "The squares are the layers themselves; nothing is left of them.",
            ),
            "</svg>\n",
        ]
    )


def main() -> None:
    """Write the picture."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(drawing())


def _layer(name: str) -> Layer:
    folder = PACKAGE / name
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{name}.py"]
    head = folder / "__init__.py" if folder.is_dir() else paths[0]
    modules = [path for path in paths if path.name != "__init__.py"]
    return Layer(
        name=name,
        about=(ast.get_docstring(ast.parse(head.read_text())) or "").split("\n\n")[0],
        modules=tuple(
            path.relative_to(folder if folder.is_dir() else PACKAGE).with_suffix("").as_posix()
            for path in modules
        ),
        lines=sum(len(path.read_text().splitlines()) for path in paths),
        imports=Counter(layer for path in modules for layer in _imported_layers(path) - {name}),
    )


def _imported_layers(path: Path) -> set[str]:
    return {
        node.module.split(".")[1] if "." in node.module else alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.split(".")[0] == "wirekafka"
        for alias in node.names
        if "." in node.module or alias.name in LAYERS
    }


def _height(layer: Layer) -> int:
    if layer.is_one_file:
        return 45
    chips = max(y for _, y, _ in _chips(layer.modules)) + _CHIP_HEIGHT
    about = 44 + 16 * len(_wrapped(layer.about))
    return max(chips + 26, about + 8)


def _chips(modules: Iterable[str]) -> Iterator[tuple[float, int, str]]:
    """Where each module's name goes, in rows from left to right."""
    x, y = 0.0, 0
    for module in modules:
        width = _chip_width(module)
        if x and x + width > _CHIPS_END - _CHIPS_AT:
            x, y = 0.0, y + _CHIP_STEP
        yield x, y, module
        x += width + 6


def _chip_width(module: str) -> float:
    return round(len(module) * _CHARACTER + 12, 1)


def _wrapped(about: str) -> list[str]:
    return textwrap.wrap(about, _ABOUT_CHARACTERS)


def _band(layer: Layer, y: int, height: int) -> Iterator[str]:
    colour = _COLOURS[layer.name]
    yield _rect(_MARGIN, y, _CHIPS_END + 16 - _MARGIN, height, colour, 8, opacity="0.08")
    yield _rect(_MARGIN, y, 6, height, colour, 3)
    yield _text(_ABOUT_AT, y + 26, "layer", layer.name, fill=colour)
    lines = f"{_rounded(layer.lines)} lines"
    yield _text(_CHIPS_AT - 24, y + 26, "lines", lines, anchor="end")
    if layer.is_one_file:
        yield _text(_CHIPS_AT, y + 27, "about", textwrap.shorten(layer.about, 110))
        return
    for number, line in enumerate(_wrapped(layer.about)):
        yield _text(_ABOUT_AT, y + 47 + 16 * number, "about", line)
    for x, down, module in _chips(layer.modules):
        width = _chip_width(module)
        at, top = _CHIPS_AT + x, y + 13 + down
        yield _rect(at, top, width, _CHIP_HEIGHT, "#ffffff", 5, stroke=colour)
        yield _text(at + width / 2, top + 13.5, "module", module)


def _columns(names: list[str], bottom: int) -> Iterator[str]:
    """The names above the matrix, and the lines that lead down from them."""
    for number, name in enumerate(names):
        x = _MATRIX_AT + _MATRIX_STEP * number + _MATRIX_STEP // 2
        yield f'<path d="M{x} {_TOP - 6}V{bottom}" stroke="{_PALE}" stroke-width="1"/>'
        yield (
            f'<text class="column" transform="translate({x + 4} {_TOP - 14}) rotate(-60)">'
            f"{escape(name)}</text>"
        )


def _matrix_row(layer: Layer, names: list[str], y: int, height: int) -> Iterator[str]:
    middle = y + height / 2
    end = _MATRIX_AT + _MATRIX_STEP * len(names)
    yield f'<path d="M{_MATRIX_AT} {middle:g}H{end}" stroke="{_PALE}" stroke-width="1"/>'
    for number, name in enumerate(names):
        x = _MATRIX_AT + _MATRIX_STEP * number + _MATRIX_STEP / 2
        if name == layer.name:
            yield _rect(x - 5, middle - 5, 10, 10, _COLOURS[name], 2)
        elif count := layer.imports[name]:
            yield f'<circle cx="{x:g}" cy="{middle:g}" r="9.5" fill="{_COLOURS[name]}"/>'
            yield _text(x, middle + 3.2, "count", str(count))


def _rounded(lines: int) -> str:
    if lines < _ROUNDED_TO:
        return f"< {_ROUNDED_TO}"
    return f"{round(lines, -2):,}"


def _text(
    x: float, y: float, kind: str, text: str, *, fill: str | None = None, anchor: str | None = None
) -> str:
    extra = f' fill="{fill}"' if fill else ""
    extra += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}"{extra}>{escape(text)}</text>'


def _rect(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    radius: int,
    *,
    opacity: str | None = None,
    stroke: str | None = None,
) -> str:
    extra = f' fill-opacity="{opacity}"' if opacity else ""
    extra += f' stroke="{stroke}" stroke-opacity="0.45"' if stroke else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" '
        f'fill="{fill}"{extra}/>'
    )


if __name__ == "__main__":
    main()

"""Renders the templates, with the filters by which they show numbers, sizes, times and bytes."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape

from wirekafka.console.source import Unknown
from wirekafka.visible_text import visible

_LINK = re.compile(r'\b(href|action|formaction|src|data-live|data-refresh-from)="/(?!c/)')
"""The start of a link to a path of the console; links to other clusters begin with /c/."""
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
NOTHING = "–"
"""Shown for unknown values."""


class Renderer:
    """The templates of the console; all that they insert is escaped."""

    def __init__(
        self, sections: Sequence[tuple[str, str, str]], *, can_change: bool = False, root: str = ""
    ) -> None:
        """`sections` are the links of the navigation: (title, path, key).

        `root` is put before the path of every link. Templates have paths without it.
        """
        self._root = root
        self._environment = Environment(
            loader=PackageLoader("wirekafka.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "number": number,
            "size": size,
            "cost": cost,
            "duration": duration,
            "moment": moment,
            "rate": rate,
            "segment": segment,
            "points": points,
            "described": described,
            "visible": visible,
        }
        self._environment.tests["unknown"] = lambda value: isinstance(value, Unknown)
        self._environment.globals |= {"sections": sections, "link": link, "can_change": can_change}

    def page(self, template: str, values: Mapping[str, Any]) -> str:
        """A whole page, or a fragment of one."""
        html = self._environment.get_template(template).render(values)
        # Only templates have quotes in their text: inserted ones are escaped.
        return _LINK.sub(rf'\1="{self._root}/', html) if self._root else html

    def warm_up(self) -> None:
        """Compile all templates, so that no visitor waits for the compiler."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    @staticmethod
    def escape(text: str) -> str:
        """Text as HTML, with hidden characters as escapes."""
        return str(escape(visible(text)))


def number(value: float | None) -> str:
    """1234567 as "1 234 567", with thin spaces."""
    if value is None:
        return NOTHING
    return f"{value:,}".replace(",", "\u202f")


def size(value: float | None) -> str:
    """Bytes in the largest unit that gives at least one."""
    if value is None or value < 0:
        return NOTHING
    power = min(int(math.log(value, 1024)), len(_SIZES) - 1) if value >= 1 else 0
    return f"{value / 1024**power:.{0 if power == 0 else 1}f} {_SIZES[power]}"


def cost(size_bytes: float | None, price: float | None) -> str:
    """The cost of bytes in a month, at a price for a GB."""
    if size_bytes is None or price is None:
        return NOTHING
    return f"{size_bytes / 1e9 * price:,.2f}".replace(",", "\u202f")


def duration(value_ms: float | None) -> str:
    """Milliseconds as "350 ms", "12.0 s", "5 min 3 s", "2 h 10 min" or "3 d 4 h"."""
    if value_ms is None or value_ms < 0:
        return NOTHING
    if value_ms < 1000:
        return f"{value_ms:.0f} ms"
    if value_ms < 60_000:
        return f"{value_ms / 1000:.1f} s"
    seconds = int(value_ms / 1000)
    for unit, smaller, unit_s, smaller_s in (
        ("d", "h", 86_400, 3_600),
        ("h", "min", 3_600, 60),
        ("min", "s", 60, 1),
    ):
        if seconds >= unit_s:
            return f"{seconds // unit_s} {unit} {seconds % unit_s // smaller_s} {smaller}"
    return f"{seconds} s"


def moment(value_ms: int | None) -> str:
    """A timestamp in UTC."""
    if value_ms is None or value_ms < 0:
        return NOTHING
    try:
        at = datetime.fromtimestamp(value_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(value_ms)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{value_ms % 1000:03d}"


def rate(value: float | None) -> str:
    """A number per second, with three digits at the most below a thousand."""
    if value is None:
        return NOTHING
    return number(round(value)) if value >= 100 else f"{value:.3g}"


def segment(text: str) -> str:
    """A name as one segment of a path."""
    return quote(text, safe="")


def link(query: Mapping[str, str], **changed: Any) -> str:
    """The query string of the page that is shown, with some parameters changed."""
    merged = {**query, **{name: str(value) for name, value in changed.items()}}
    return "?" + urlencode({name: value for name, value in merged.items() if value != ""})


def points(samples: Sequence[tuple[float, ...]], most: int = 400, column: int = 1) -> str:
    """(time in ms, value, …) of each sample as the data of a chart, thinned out if need be.

    Values below zero are unknown, and null.
    """
    step = -(-len(samples) // most)
    if step > 1:
        samples = samples[(len(samples) - 1) % step :: step]
    times = [round(sample[0] / 1000) for sample in samples]
    values = [None if sample[column] < 0 else round(sample[column], 3) for sample in samples]
    return json.dumps([times, values], separators=(",", ":"))


def described(samples: Sequence[tuple[float, ...]], unit: str, column: int = 1) -> str:
    """A chart in words: "now 3 records, least 0, most 12, from 10:00:00 to 11:00:00 UTC"."""
    known = [(sample[0], sample[column]) for sample in samples if sample[column] >= 0]
    if not known:
        return "not known yet"
    values = [value for _, value in known]
    now, least, most = (measured(each, unit) for each in (values[-1], min(values), max(values)))
    start, end = (moment(round(at))[11:19] for at in (known[0][0], known[-1][0]))
    return f"now {now}, least {least}, most {most}, from {start} to {end} UTC"


def measured(value: float, unit: str) -> str:
    """A value with its unit: bytes ("B", "B/s") and durations ("ms") in fitting ones."""
    match unit:
        case "B" | "B/s":
            return size(value) + unit[1:]
        case "ms":
            return duration(value)
        case _:
            return f"{rate(value)} {unit}"


def now_ms() -> int:
    """The time of the wall clock."""
    return time.time_ns() // 1_000_000

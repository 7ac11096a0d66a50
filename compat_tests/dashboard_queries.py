"""What published Grafana dashboards ask of Prometheus, one query a line in `dashboards/`.

`python -m compat_tests.dashboard_queries FILE.json` prints those of a dashboard, to compare a newer
one. Lines are `variable` or `panel`, the name of the variable or the panel's title, and the query,
separated by tabs. Each panel's query is there once, also if several panels have it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_DIRECTORY = Path(__file__).with_name("dashboards")
VARIABLE, PANEL = "variable", "panel"
DASHBOARDS = tuple(sorted(path.stem for path in _DIRECTORY.glob("*.tsv")))

_INAPPLICABLE = {
    "container": "cAdvisor measures containers",
    "kubelet": "Kubernetes measures its volumes",
    "jvm": "there is no JVM",
}
"""By the start of a metric's name."""


class Query(NamedTuple):
    """A query of a dashboard, with its variables as `$name`."""

    kind: str
    title: str
    text: str

    def expression(self, variables: Mapping[str, str]) -> str:
        """The PromQL expression, with the values of the variables."""
        text = re.sub(r"\$(\w+)", lambda found: variables[found[1]], self.text)
        # Grafana's functions of variables.
        if values := re.fullmatch(r"label_values\((.+), (\w+)\)", text, re.DOTALL):
            return f"count by ({values[2]}) ({values[1]})"
        if result := re.fullmatch(r"query_result\((.+)\)", text, re.DOTALL):
            return result[1]
        return text

    @property
    def inapplicable(self) -> str | None:
        """Why a broker that runs in no container and on no JVM has nothing to answer, if so."""
        for prefix, reason in _INAPPLICABLE.items():
            if re.search(rf"\b{prefix}_\w+{{", self.text):
                return reason
        return None


def queries(dashboard: str) -> list[Query]:
    """The queries of a dashboard, by its name in `DASHBOARDS`."""
    text = (_DIRECTORY / f"{dashboard}.tsv").read_text()
    return [Query(*line.split("\t")) for line in text.splitlines()]


def read(dashboard: Any) -> Iterator[Query]:
    """The queries of a dashboard as Grafana exports it."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            asked = variable["query"]
            text = asked if isinstance(asked, str) else asked["query"]
            yield Query(VARIABLE, variable["name"], text.strip())
    found = {}
    for panel in _panels(dashboard):
        for target in panel.get("targets", ()):
            if "expr" not in target:
                continue
            text = " ".join(target["expr"].split())
            found.setdefault(text, Query(PANEL, panel["title"], text))
    yield from found.values()


def _panels(part: Any) -> Iterator[Any]:
    for panel in part.get("panels", ()):
        yield panel
        yield from _panels(panel)
    for row in part.get("rows", ()):
        yield from _panels(row)


if __name__ == "__main__":
    for each in read(json.loads(Path(sys.argv[1]).read_text())):
        print(*each, sep="\t")

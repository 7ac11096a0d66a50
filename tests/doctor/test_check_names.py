"""The names of checks: all of them are documented, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "find-what-is-wrong.md"
_NAME = re.compile(r'"([a-z]+(?:-[a-z]+)+)"')
_NO_CHECKS = {"wirekafka-doctor"}


def test_each_check_is_documented_under_its_name() -> None:
    sources = (ROOT / "wirekafka" / "doctor").rglob("*.py")
    found = {name for each in sources for name in _NAME.findall(each.read_text())} - _NO_CHECKS
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert found == documented
    assert len(found) > 50

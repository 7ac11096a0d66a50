"""Log records as JSON."""

from __future__ import annotations

import json
import logging
import sys

from wirekafka.server.json_logs import JsonFormatter


def test_a_record_is_one_line_with_its_traceback() -> None:
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        record = logging.LogRecord(
            "wirekafka.x", logging.ERROR, "", 0, "Failed: %s", ("é\n",), sys.exc_info()
        )
    record.created = 1_700_000_000.5
    text = JsonFormatter().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert found.pop("error").endswith("ValueError: broken\nin two")
    assert found == {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "error",
        "logger": "wirekafka.x",
        "message": "Failed: é\n",
    }

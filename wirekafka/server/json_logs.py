"""Log records as JSON, one object a line."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from wirekafka.visible_text import json_text


class JsonFormatter(logging.Formatter):
    """Formats a record with `time` (ISO 8601, UTC), `level`, `logger`, `message` and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        found = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json_text(found)

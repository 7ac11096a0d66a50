"""Log records as lines of text that nothing in a message can forge."""

from __future__ import annotations

import logging

from wirekafka.visible_text import one_line

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class TextFormatter(logging.Formatter):
    """Formats a record on one line, hidden characters as escapes; a traceback follows, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without the traceback."""
        return one_line(super().formatMessage(record))

    def formatException(self, exc_info: object) -> str:
        """The traceback, with hidden characters of the exception's text escaped."""
        text = super().formatException(exc_info)  # type: ignore[arg-type]
        return "\n".join(f"  {one_line(line)}" for line in text.split("\n"))

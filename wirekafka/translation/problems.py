"""Why a topic's table does not go on: for a while, or until somebody changes something."""

from __future__ import annotations


class TableProblem(Exception):
    """The table does not go on; the text says why, and what to do where that is known."""


class TableRetrying(TableProblem):
    """A passing problem: the translation tries again by itself."""


class TablePaused(TableProblem):
    """A problem that lasts until the topic, its options or the table change."""

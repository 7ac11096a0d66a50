"""The signals that stop a process cleanly."""

from __future__ import annotations

import signal
from collections.abc import Sequence


def stop_signals() -> Sequence[signal.Signals]:
    """SIGTERM, Ctrl-C, and SIGHUP as with Kafka, unless `nohup` has made the process ignore it.

    A terminal that is closed sends SIGHUP; there are no log files to reopen.
    """
    always = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return always
    return [*always, signal.SIGHUP]

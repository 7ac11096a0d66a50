"""A worker of tables that writes none: it notes its input, and reports what a file says.

`python fake_worker.py DIRECTORY`: `input-PID.jsonl` there has the lines that a process was sent,
`report.jsonl` is printed whenever it has changed. A line of this file that is no object is printed
as it is, `exit N` ends the process, and `stay` lets it outlive the end of its input.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

_POLL_S = 0.01


def main(directory: Path) -> None:
    reports = directory / "report.jsonl"
    is_staying = threading.Event()

    def follow() -> None:
        known = ""
        while True:
            text = reports.read_text() if reports.exists() else ""
            if text != known:
                known = text
                for line in text.splitlines():
                    _obey(line, is_staying)
            time.sleep(_POLL_S)

    threading.Thread(target=follow, daemon=True).start()
    with (directory / f"input-{os.getpid()}.jsonl").open("a") as file:
        for line in sys.stdin:
            file.write(line)
            file.flush()
    while is_staying.is_set():
        time.sleep(_POLL_S)
    (directory / f"ended-{os.getpid()}").touch()


def _obey(line: str, is_staying: threading.Event) -> None:
    command, _, status = line.partition(" ")
    if command == "exit":
        print("it is broken", file=sys.stderr, flush=True)
        os._exit(int(status))
    if command == "stay":
        is_staying.set()
        return
    print(line, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Files of properties: what --config and --command-config read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from wirekafka.config.option import ConfigError
from wirekafka.config.sources import read_properties


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(ConfigError, match="/dev/zero is not a properties file"):
        read_properties(Path("/dev/zero"))


def test_a_pipe_can_be_read_as_shells_pass_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("node.id=1\nlog.dirs = a,\\\n  b\n"))
    writer.start()
    assert read_properties(pipe) == {"node.id": "1", "log.dirs": "a,b"}
    writer.join()


def test_lines_of_windows_and_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("a=1\r\nb=\u00e9\\u00e8\r\n# c=2\n".encode())
    assert read_properties(file) == {"a": "1", "b": "\u00e9\u00e8"}


@pytest.mark.parametrize("data", [b"a=\\u12\n", b"\xff"])
def test_what_is_no_properties_file_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match="is not a properties file"):
        read_properties(file)

"""The Unix socket of a broker, which is a convenience: no broker fails for want of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from wirekafka.server.local_socket import SOCKET, LocalSocket


@pytest.mark.parametrize("obstacle", ["a directory in its place", "a long path"])
def test_a_path_that_cannot_be_used_is_logged(
    obstacle: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    directory = tmp_path
    if obstacle == "a long path":
        directory = tmp_path / ("d" * 120)
        directory.mkdir()
    else:
        (directory / SOCKET).mkdir()
    local = LocalSocket(SimpleNamespace(directories=[SimpleNamespace(path=str(directory))]))  # type: ignore[arg-type]
    asyncio.run(local.start())
    assert "`wirekafka clients` and `snapshot` are not available" in caplog.text
    local.stop()

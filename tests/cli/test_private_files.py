"""`serve --secure` and other users of the machine: owners, permissions, who reads a password."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.server.serving import Serving
from wirekafka.cli import secure, serve
from wirekafka.config.option import ConfigError

LISTEN = "127.0.0.1:0"


def prepared(data: Path) -> secure.SecuredBroker:
    arguments = serve._parser().parse_args(["--secure", "--data", str(data), "--listen", LISTEN])
    return secure.prepare(serve.configuration(arguments))[0]


@pytest.fixture(autouse=True)
def _umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that `--secure` has made, with its secrets in `data-security`."""
    prepared(tmp_path / "data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    return tmp_path / "data"


def test_what_a_secured_broker_and_its_nodes_write_is_accessible_to_their_user_only(
    tmp_path: Path,
) -> None:
    for name, arguments in {"one": (), "two": ("--brokers", "2")}.items():
        data = tmp_path / name
        with Serving(data, "--secure", *arguments) as broker:
            assert broker.port
            assert broker.stop() == 0
        written = [data, *data.rglob("*"), *(tmp_path / f"{name}-security").rglob("*")]
        exposed = [path for path in written if path.stat().st_mode & 0o077]
        assert not exposed and len(written) > 8


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "the data is readable by others": (
        lambda data: data.chmod(0o755),
        "data: other users can access it (mode 0755): chmod 700",
    ),
    "others can write secrets": (
        lambda data: data.with_name("data-security").chmod(0o770),
        "data-security: other users can change it (mode 0770): chmod 700",
    ),
    "the password is readable by others": (
        lambda data: (data.with_name("data-security") / "password").chmod(0o644),
        "password: other users can access it (mode 0644): chmod 600",
    ),
    "others can write the certificate that clients trust": (
        lambda data: (data.with_name("data-security") / "ca.pem").chmod(0o622),
        "ca.pem: other users can change it (mode 0622): chmod 600",
    ),
    "others can replace the directory of secrets": (
        lambda data: data.parent.chmod(0o777),
        "every user can replace data-security there",
    ),
}


@pytest.mark.parametrize("change, message", CHANGES.values(), ids=CHANGES.keys())
def test_what_other_users_can_reach_is_refused_with_the_command_that_mends_it(
    data: Path, change: Callable[[Path], None], message: str
) -> None:
    change(data)
    with pytest.raises(ConfigError) as refused:
        prepared(data)
    assert str(refused.value).startswith("--secure: /") and message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["data", "data-security", "data-security/password"])
def test_what_another_user_made_is_refused(
    data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by, own = os.geteuid(), 54321
    status_of = Path.stat
    monkeypatch.setattr(os, "geteuid", lambda: own)
    foreign = data.parent / name

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        fields = list(status_of(path, follow_symlinks=follow_symlinks))
        fields[4] = made_by if path == foreign else own
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(Path, "lstat", lambda path: stat(path, follow_symlinks=False))
    with pytest.raises(ConfigError, match=f"{name}: it belongs to user .*runs as user 54321"):
        prepared(data)


def test_an_empty_directory_becomes_private_and_certificates_may_be_readable(data: Path) -> None:
    new = data.with_name("new")
    new.mkdir(0o755)
    prepared(new)
    assert new.stat().st_mode & 0o777 == 0o700
    (data.with_name("data-security") / "ca.pem").chmod(0o644)
    data.with_name("data-security").chmod(0o755)
    data.chmod(0o700)
    assert prepared(data).password


def test_the_password_is_printed_on_a_terminal_and_otherwise_the_name_of_its_file(
    tmp_path: Path,
) -> None:
    with Serving(tmp_path / "data", "--secure") as broker:
        broker.process.send_signal(signal.SIGTERM)
        printed, log = broker.output()
    directory = tmp_path / "data-security"
    assert (directory / "password").read_text().strip() not in printed + log
    assert str(directory / "password") in printed
    assert str(directory / "client.properties") in printed
    shown = _printed_on_a_terminal(tmp_path / "other")
    assert shown.count((tmp_path / "other-security" / "password").read_text().strip()) == 2


def _printed_on_a_terminal(data: Path) -> str:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "wirekafka", "serve", "--secure", "--data", str(data)]
    shown = b""
    with subprocess.Popen(
        [*command, "--listen", LISTEN], stdout=terminal, stderr=subprocess.PIPE
    ) as process:
        os.close(terminal)

        def has_printed_settings() -> bool:
            nonlocal shown
            shown += os.read(ours, 1 << 16)
            return b"confluent-kafka" in shown and b"ssl.ca.location" in shown

        try:
            eventually(has_printed_settings)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            os.close(ours)
    return shown.decode()

"""The page on operation: its unit starts a broker, its commands work, its states exist."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from cryptography import x509

from spark_examples.live_broker import live_broker
from tests.certificates import Authority
from tests.eventually import eventually
from tests.ports import free_ports
from wirekafka.log.directories import log_directory
from wirekafka.server import descriptors
from wirekafka.server.monitoring import health, service

GUIDES = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to"
UNIT = (GUIDES / "wirekafka.service").read_text()
PAGE = (GUIDES / "operate.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
[PROPERTIES] = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
BIN = Path(sys.executable).parent
STATES = re.findall(r"^\| (?:200|503) `(.*?)` \|", PAGE, re.MULTILINE)


@dataclass
class Unit:
    """The broker that the unit starts, below a directory of the test."""

    root: Path
    ports: dict[str, str]
    authority: Authority
    process: subprocess.Popen[bytes]
    manager: socket.socket

    def here(self, text: str) -> str:
        return _here(text, self.root, self.ports)

    def run(self, commands: str) -> str:
        """What the commands of the page print."""
        environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "WIREKAFKA_BOOTSTRAP": f"127.0.0.1:{self.ports['9092']}",
        }
        done = subprocess.run(
            ["sh", "-e", "-c", self.here(commands)],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (commands, done.stderr)
        return done.stdout


def _here(text: str, root: Path, ports: dict[str, str]) -> str:
    """A text with the test's paths and ports in place of the page's."""
    for path in ("/opt/wirekafka/bin", "/etc/wirekafka", "/var/lib/wirekafka", "/mnt/backups"):
        name = path.strip("/").partition("/")[0]
        text = text.replace(path, str(BIN if name == "opt" else root / name))
    for port, free in ports.items():
        text = text.replace(f":{port}", f":{free}")
    return text


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[Unit]:
    parsed = ConfigParser(interpolation=None)
    parsed.read_string(UNIT)
    command = parsed["Service"]["ExecStart"]
    ports = dict(zip(("9092", "9093", "9404"), map(str, free_ports(3)), strict=True))
    authority = Authority(tmp_path)
    for name in ("etc", "var", "mnt"):
        (tmp_path / name).mkdir()
    _certify(tmp_path, authority)
    (tmp_path / "etc" / "server.properties").write_text(_here(PROPERTIES, tmp_path, ports))
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(20)
    with manager, (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen(
            _here(command, tmp_path, ports).split(),
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        try:
            assert manager.recv(100) == b"READY=1", (tmp_path / "log").read_text()
            yield Unit(tmp_path, ports, authority, process, manager)
        finally:
            process.kill()
            process.wait()


def _certify(root: Path, authority: Authority) -> int:
    """Write a new certificate of the broker; returns its serial number."""
    issued = authority.issue("O=Example,CN=broker", "127.0.0.1")
    (root / "etc" / "broker.pem").write_text(Path(issued.pem()).read_text())
    return issued.chain[0].serial_number


def test_the_commands_of_the_page_work_on_the_broker_that_the_unit_starts(unit: Unit) -> None:
    [state, backup, restore, upgrade, room, certificate] = BLOCKS
    assert unit.run(state).startswith('{"status": "up"}\n{"status": "up"}\n')
    unit.run("wirekafka topics create orders old-orders")
    unit.run(backup)
    unit.run(restore)
    assert "wirekafka 0." in unit.run(upgrade)
    unit.run(room)
    assert unit.run("wirekafka topics list").split() == ["orders"]
    serial = _certify(unit.root, unit.authority)
    change, look = certificate.splitlines()
    unit.run(change)
    eventually(lambda: _served_serial(unit) == serial)
    if shutil.which("openssl"):
        assert unit.run(look).startswith("notAfter=")
    with live_broker(unit.root / "var" / "restored") as bootstrap:
        listed = unit.run(f"wirekafka topics list --bootstrap-server {bootstrap}").split()
        assert listed == ["old-orders", "orders"]


def _served_serial(unit: Unit) -> int:
    pem = ssl.get_server_certificate(("127.0.0.1", int(unit.ports["9093"])))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_log_file_is_rotated_by_copying_and_truncating_it(unit: Unit) -> None:
    log = unit.root / "log"
    shutil.copy(log, unit.root / "log.1")
    os.truncate(log, 0)
    with urlopen(f"http://127.0.0.1:{unit.ports['9404']}/ready", timeout=20) as answer:
        assert answer.status == 200
    unit.process.send_signal(signal.SIGTERM)
    assert unit.process.wait(30) == 0
    assert unit.manager.recv(100) == b"STOPPING=1"
    assert "is broker and controller" in (unit.root / "log.1").read_text()
    text = log.read_text()
    assert "Stopped" in text and "is broker and controller" not in text and "\0" not in text


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    (tmp_path / "wirekafka.service").write_text(_here(UNIT, tmp_path, {}))
    done = subprocess.run(
        [program, "verify", "--man=no", tmp_path / "wirekafka.service"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_state_in_the_table_is_found() -> None:
    assert len(STATES) == PAGE.count("| 503 `") + PAGE.count("| 200 `") > 10


@pytest.mark.parametrize("text", STATES)
def test_a_state_that_the_page_explains_exists(text: str) -> None:
    modules = (health, service, descriptors, log_directory)
    code = "".join(Path(str(module.__file__)).read_text() for module in modules)
    assert [part for part in text.split("…") if part.strip() not in code] == []

"""`wirekafka serve --schema-registry`: a registry in the process of a broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.ports import free_ports
from tests.registry.servers import ask
from tests.server.serving import Serving
from wirekafka.cli.serve import main as serve_main
from wirekafka.config.option import ConfigError

FULL = {"compatibility": "FULL"}


def url_of(serving: Serving) -> str:
    assert serving.process.stderr is not None
    found = None
    while found is None:
        line = serving.process.stderr.readline()
        assert line, "it has ended"
        found = re.search(r"The schema registry is served at (\S+)", line)
    return found[1]


def test_without_a_registry_none_of_it_is_imported() -> None:
    code = (
        "import sys, wirekafka.server.run, wirekafka.cli.serve\n"
        "from wirekafka.apis.shared import registry; registry.load()\n"
        "parts = 'wirekafka.registry', 'wirekafka.web', 'wirekafka.schemas', 'starlette'\n"
        "print([name for name in sys.modules if name.startswith((*parts, 'uvicorn', 'avro'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_registry_is_served_beside_the_broker_and_outlives_a_kill(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--schema-registry", "0") as serving:
        url = url_of(serving)
        assert ask(url, "PUT", "/config/a", FULL).status == 200
        serving.process.kill()
        serving.process.wait()
    with Serving(tmp_path / "data", "--schema-registry", "0") as serving:
        assert ask(url_of(serving), "GET", "/config/a").body == {"compatibilityLevel": "FULL"}


def test_the_administrator_of_a_secured_broker_is_the_registrys_user(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", "--schema-registry", "0", "--secure") as serving:
        url = url_of(serving)
        password = (tmp_path / "data-security" / "password").read_text().strip()
        assert ask(url, "PUT", "/config", FULL).status == 401
        assert ask(url, "PUT", "/config", FULL, login=("admin", password)).status == 200


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            ["listeners=SSL://127.0.0.1:0", "security.inter.broker.protocol=SSL"],
            "needs --schema-registry-config FILE: SSL has SSL",
        ),
        (
            [
                "process.roles=controller",
                "listeners=CONTROLLER://127.0.0.1:0",
                "controller.quorum.voters=1@127.0.0.1:9093",
            ],
            "only a broker has a schema registry",
        ),
        (
            ["wirekafka.schema.registry.certificate=/no/such/file"],
            "/no/such/file: no usable certificate",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, settings: list[str], reason: str
) -> None:
    words = [word for each in settings for word in ("--set", each)]
    with pytest.raises(ConfigError, match=reason):
        serve_main(["--data", str(tmp_path / "data"), "--schema-registry", "0", *words])


def test_each_of_several_brokers_has_a_registry(tmp_path: Path) -> None:
    first, _, broker, *_ = free_ports(5)
    words = ["--brokers", "2", "--schema-registry", str(first)]
    with Serving(tmp_path / "data", *words, listen=f"127.0.0.1:{broker}") as serving:
        assert serving.ready.startswith("wirekafka ready")
        urls = [f"http://127.0.0.1:{first + step}" for step in range(2)]
        for number, url in enumerate(urls):
            eventually(
                lambda url=url, number=number: (
                    ask(url, "PUT", f"/config/s{number}", FULL).status == 200
                )
            )
        for url in urls:
            eventually(lambda url=url: ask(url, "GET", "/config/s0").status == 200)

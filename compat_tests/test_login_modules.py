"""Neither engine starts while an enabled SASL mechanism of a listener has no login module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare
from wirekafka.config.prefixed_names import jaas_option

_PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    "username=node password=secret user_node=secret;"
)
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "CONTROLLER": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
}


@pytest.mark.parametrize("listener", _LISTENERS)
def test_scram_without_a_login_module_is_refused(listener: str, tmp_path: Path) -> None:
    settings = {
        "listener.security.protocol.map": _LISTENERS[listener],
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        jaas_option(listener, "PLAIN"): _PLAIN,
    }
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    _, apache = prepare(tmp_path, SMALL_JVM, SMALL_CLEANER + lines)
    properties = tmp_path / "server.properties"
    entry = f"Could not find a 'KafkaServer' or '{listener.lower()}.KafkaServer' entry in the JAAS"
    _refusal(apache)
    assert entry in (tmp_path / "server.log").read_text()
    own = [sys.executable, "-m", "wirekafka", "serve", "--config", str(properties)]
    option = jaas_option(listener, "SCRAM-SHA-256")
    assert f"{option}: SCRAM-SHA-256 needs a login module" in _refusal(own)


def _refusal(command: list[str]) -> str:
    """What a start prints that fails."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert ended.returncode == 1, ended
    return ended.stdout + ended.stderr

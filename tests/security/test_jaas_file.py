"""Login modules of the JAAS file that KAFKA_OPTS names, where no option sets one."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.security.sasl.mechanisms import login_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
FILE = f"""
KafkaServer {{
    {PLAIN} required username="all" user_all="p";
    {SCRAM} required username="scram" password="s";
}};
inside.KafkaServer {{ {PLAIN} required username="inside" password="i"; }};
"""
OUTSIDE, INSIDE = "OUTSIDE", "INSIDE"


def _config(path: Path | str, prefix: str = "", **settings: str) -> BrokerConfig:
    options = f"-Xmx1G -Djava.security.auth.login.config={prefix}{path} -Dother=1"
    return BrokerConfig.of(settings, {"KAFKA_OPTS": options})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jaas.conf"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("prefix", ["", "=", "file:"])
def test_the_entry_of_all_listeners(file: Path, prefix: str) -> None:
    module = login_module(_config(file, prefix), OUTSIDE, "PLAIN")
    assert module.options == {"username": "all", "user_all": "p"}
    module = login_module(_config(file, prefix), OUTSIDE, "SCRAM-SHA-512")
    assert module.options == {"username": "scram", "password": "s"}


def test_the_entry_of_a_listener_replaces_it_as_a_whole(file: Path) -> None:
    config = _config(file)
    assert login_module(config, INSIDE, "PLAIN").options["username"] == "inside"
    assert login_module(config, INSIDE, "SCRAM-SHA-256").options == {}


def test_an_option_overrules_the_file(file: Path) -> None:
    name = "listener.name.outside.plain.sasl.jaas.config"
    config = _config(file, **{name: f"{PLAIN} required username=option;"})
    assert login_module(config, OUTSIDE, "PLAIN").options == {"username": "option"}


def test_a_file_without_the_entry_is_as_none(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f"KafkaClient {{ {PLAIN} required; }};")
    with pytest.raises(ConfigError, match=r"listener\.name\.outside\.plain\.sasl\.jaas\.config"):
        login_module(_config(file), OUTSIDE, "PLAIN")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    with pytest.raises(ConfigError, match=f"cannot read {file}: No such file or directory"):
        login_module(_config(file), OUTSIDE, "PLAIN")
    file.write_text(f'KafkaServer {{ {PLAIN} required password="hush" ')
    with pytest.raises(ConfigError, match=f"cannot read {file}: .*semi-colon") as refusal:
        login_module(_config(file), OUTSIDE, "PLAIN")
    assert "hush" not in str(refusal.value)

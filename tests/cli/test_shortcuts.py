"""Options of `serve` that set Kafka's options: what they set, and what they must not contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirekafka.cli import serve
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError

SASL = "listeners=SASL_PLAINTEXT://127.0.0.1:9093"


def configuration(*words: str) -> BrokerConfig:
    return serve.configuration(serve._parser().parse_args(words))


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["--listen", "127.0.0.1:9092", "--set", SASL],
            f"--listen sets listeners=PLAINTEXT://127.0.0.1:9092, and --set sets {SASL}",
        ),
        (
            ["--data", "a", "--set", "log.dirs=b"],
            "--data sets log.dirs=a, and --set sets log.dirs=b",
        ),
        (["--data", "a", "--set", "log.dir=b"], "--data sets log.dirs=a, and --set sets log.dir=b"),
        (
            ["--metrics", "9100", "--set", "wirekafka.metrics.listener=9200"],
            "--metrics sets wirekafka.metrics.listener=9100, and --set",
        ),
        (
            ["--console", "9100", "--set", "wirekafka.console.listener=9200"],
            "--console sets wirekafka.console.listener=9100, and --set",
        ),
        (
            ["--allow-changes", "--set", "wirekafka.console.allow.changes=false"],
            "--allow-changes sets wirekafka.console.allow.changes=true, and --set",
        ),
        (
            ["--console-config", "a", "--set", "wirekafka.console.command.config=b"],
            "--console-config sets wirekafka.console.command.config=a, and --set",
        ),
        (
            ["--new-directory", "a", "--set", "wirekafka.new.log.dirs=b"],
            "--new-directory sets wirekafka.new.log.dirs=a, and --set",
        ),
    ],
)
def test_an_option_that_contradicts_a_setting_is_refused_naming_both(
    words: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        configuration(*words)
    assert str(refused.value).startswith(message)
    assert str(refused.value).endswith(": leave out one of them")


def test_contradictions_of_files_and_the_environment_are_refused_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SASL)
    with pytest.raises(ConfigError, match=f", and {file} sets listeners=SASL"):
        configuration("--listen", "127.0.0.1:9092", "--config", str(file))
    monkeypatch.setenv("KAFKA_LISTENERS", "SASL_PLAINTEXT://127.0.0.1:9093")
    with pytest.raises(ConfigError, match="environment variable KAFKA_LISTENERS sets"):
        configuration("--listen", "127.0.0.1:9092", "--brokers", "3")


def test_what_is_given_twice_alike_is_no_contradiction() -> None:
    config = configuration("--listen", "127.0.0.1:1", "--set", "listeners=PLAINTEXT://127.0.0.1:1")
    assert config.listeners == ("PLAINTEXT://127.0.0.1:1",)


@pytest.mark.parametrize(
    "words, source",
    [
        (["--data", ","], "--data"),
        (["--set", "log.dirs=,"], "--set"),
        (["--node-set", "num.partitions=x"], "--brokers"),
    ],
)
def test_a_wrong_value_is_reported_with_the_option_that_gave_it(
    words: list[str], source: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        configuration(*words)
    assert str(refused.value).endswith(f"(from {source})")

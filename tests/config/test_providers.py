"""Config providers: values from files, directories and environment variables."""

import time
from pathlib import Path

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.providers import resolved

PACKAGE = "org.apache.kafka.common.config.provider"


def config(environment: dict[str, str] | None = None, **settings: str) -> BrokerConfig:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    providers = {
        "config.providers": "file,dir,env",
        "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
        "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
        "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    }
    return BrokerConfig.of({**providers, **names}, environment)


def test_a_file_of_properties(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("key=first\nother=second\n")
    found = config(ssl_key_password=f"a-${{file:{tmp_path}/secrets:key}}-b")
    assert found.ssl_key_password == "a-first-b"
    assert found.unknown == []


def test_a_directory_of_files(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("first")
    assert config(ssl_key_password=f"${{dir:{tmp_path}:key}}").ssl_key_password == "first"


def test_an_environment_variable() -> None:
    found = config({"SECRET": "first"}, ssl_key_password="${env:SECRET}")
    assert found.ssl_key_password == "first"


def test_unresolved_references_stay_unchanged(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("")
    for text in (
        f"${{file:{tmp_path}/secrets:key}}",
        f"${{dir:{tmp_path}:key}}",
        f"${{dir:{tmp_path}/secrets:../secrets}}",
        "${env:SECRET}",
        "${vault:a:b}",
        "${file}",
    ):
        assert config(ssl_key_password=text).ssl_key_password == text


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_only_allowed_paths_are_read(kind: str, tmp_path: Path) -> None:
    for name in ("allowed", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("key=found")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "other" / "key")
    allowed = {f"config.providers.{kind}.param.allowed.paths": f"{tmp_path}/allowed"}

    def read(directory: str, name: str = "key") -> str | None:
        base = f"{tmp_path}/{directory}"
        text = f"${{file:{base}/{name}:key}}" if kind == "file" else f"${{dir:{base}:{name}}}"
        return config(**allowed, ssl_key_password=text).ssl_key_password

    assert (read("allowed") or "").endswith("found")
    for refused in (read("other"), read("allowed/../other"), read("allowed", "link")):
        assert refused is not None and refused.startswith("${")


def test_only_allowed_variables_are_read() -> None:
    environment = {"KAFKA_SECRET": "first", "OTHER": "second"}
    found = config(
        environment,
        **{"config.providers.env.param.allowlist.pattern": "KAFKA_.*"},
        ssl_key_password="${env:KAFKA_SECRET}",
        ssl_keystore_password="${env:OTHER}",
    )
    assert (found.ssl_key_password, found.ssl_keystore_password) == ("first", "${env:OTHER}")


def test_without_providers_nothing_is_replaced() -> None:
    found = BrokerConfig.of({"ssl.key.password": "${env:HOME}"}, {"HOME": "x"})
    assert found.ssl_key_password == "${env:HOME}"


def test_no_class_is_loaded() -> None:
    with pytest.raises(ConfigError, match="must be one of"):
        config(**{"config.providers.env.class": "com.example.Provider"})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        config(ssl_key_password=f"${{file:{tmp_path}/none:key}}")


def test_values_found_are_hidden_like_any_other_secret(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("key=hush")
    found = config(ssl_key_password=f"${{file:{tmp_path}/secrets:key}}")
    assert "hush" not in repr(found.ssl_key_password)


def test_references_in_dynamic_options_of_tls_and_sasl_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("store=/run/store.pem\n")
    name = "listener.name.tls.ssl.keystore.location"
    per_broker = {
        name: f"${{file:{tmp_path}/secrets:store}}",
        "listener.name.tls.ssl.key.password": "${env:SECRET}",
        "ssl.truststore.location": f"${{file:{tmp_path}/missing:store}}",
    }
    found = config({"SECRET": "first"}).with_dynamic({}, per_broker)
    listener = found.for_listener("tls")
    assert listener.ssl_keystore_location == "/run/store.pem"
    assert listener.ssl_key_password == "first"
    unread = f"${{file:{tmp_path}/missing:store}}"
    assert listener.ssl_truststore_location == unread, "as one that finds nothing"


def test_other_dynamic_options_have_no_references(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("ms=1000\n")
    reference = f"${{file:{tmp_path}/secrets:ms}}"
    found = config().with_dynamic({"log.retention.ms": reference}, {})
    assert found.sources.text("log.retention.ms") == reference, "which a change is refused for"


@pytest.mark.parametrize("text", ["${" + ":" * 32_000, "${:" * 11_000, "${" * 16_000 + "}"])
def test_a_value_of_many_starts_of_references_takes_little_time(text: str) -> None:
    """It took time with the cube of the length."""
    values = {
        "config.providers": "env",
        "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
        "log.dirs": text,
    }
    before_s = time.process_time()
    assert resolved(values, {})["log.dirs"] == text
    assert time.process_time() - before_s < 0.5

"""Config providers: values from files, directories and environment variables."""

import time
from pathlib import Path

import pytest

from tests.config.test_small_file import hostile_paths
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError

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


def own_provider(directory: Path) -> dict[str, str]:
    """The settings by which `serve --secure --brokers` takes the nodes' login from a file."""
    for name in ("nodes.properties", "other.properties"):
        (directory / name).write_text("sasl.jaas.config=hush\n")
    return {
        "config.providers": "wirekafka",
        "config.providers.wirekafka.class": "wirekafka.NodesFile",
        "config.providers.wirekafka.param.file": f"{directory}/nodes.properties",
    }


def test_the_own_provider_reads_one_file(tmp_path: Path) -> None:
    base = own_provider(tmp_path)
    for path, expected in (
        (f"{tmp_path}/nodes.properties", "hush"),
        (f"{tmp_path}/other.properties", None),
        (f"{tmp_path}/./nodes.properties", None),
        ("", None),
    ):
        reference = f"${{wirekafka:{path}:sasl.jaas.config}}"
        found = BrokerConfig.of({**base, "ssl.key.password": reference})
        assert found.ssl_key_password == (expected or reference)


def test_no_dynamic_value_refers_to_the_own_provider(tmp_path: Path) -> None:
    reference = f"${{wirekafka:{tmp_path}/nodes.properties:sasl.jaas.config}}"
    name = "listener.name.sasl_ssl.ssl.keystore.location"
    base = BrokerConfig.of({**own_provider(tmp_path), "ssl.key.password": reference})
    again = {"config.providers.mine.class": "wirekafka.NodesFile"}
    for dynamic in (
        {name: reference},
        {name: reference, **own_provider(tmp_path)},
        {name: reference.replace("wirekafka", "mine"), "config.providers": "mine", **again},
    ):
        found = base.with_dynamic({}, dynamic)
        assert found.for_listener("sasl_ssl").ssl_keystore_location == dynamic[name]
        assert found.ssl_key_password == "hush", "which is static"


def test_providers_are_those_of_the_static_configuration(tmp_path: Path) -> None:
    """Unlike in Kafka, where whoever may change a configuration chooses them."""
    (tmp_path / "secrets").write_text("key=hush\n")
    reference = f"${{mine:{tmp_path}/secrets:key}}"
    dynamic = {
        "config.providers": "mine",
        "config.providers.mine.class": f"{PACKAGE}.FileConfigProvider",
        "ssl.key.password": reference,
    }
    assert config().with_dynamic({}, dynamic).ssl_key_password == reference
    limited = config(**{"config.providers.file.param.allowed.paths": "/nowhere"})
    widened = {
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "ssl.key.password": reference.replace("mine", "file"),
    }
    assert limited.with_dynamic({}, widened).ssl_key_password == widened["ssl.key.password"]


def test_a_reference_to_something_that_is_no_small_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    limited = {f"config.providers.{name}.param.allowed.paths": "/" for name in ("file", "dir")}
    for path in (*hostile_paths(tmp_path).values(), f"{tmp_path}/loop"):
        for reference in (f"${{file:{path}:key}}", f"${{dir:{path}:key}}"):
            for providers in (config(), config(**limited)):
                found = providers.with_dynamic({}, {"ssl.key.password": reference})
                assert found.ssl_key_password == reference


def test_several_references_in_one_text() -> None:
    found = config({"A": "1", "B": "2"}, ssl_key_password="<${env:A}-${env}-${env:B}${env:C}> ${")
    assert found.ssl_key_password == "<1-${env}-2${env:C}> ${"


def test_long_texts_take_no_long_time() -> None:
    """Kafka's pattern would need the cube of these lengths."""
    for text in ("${env" + ":" * 500_000, "${" * 250_000, "${" * 250_000 + "}", "${}" * 150_000):
        begin = time.process_time()
        assert config(ssl_key_password=text).ssl_key_password == text
        assert time.process_time() - begin < 2


def test_a_text_does_not_refer_to_more_than_a_node_has_memory_for(tmp_path: Path) -> None:
    (tmp_path / "large").write_text("x" * 500_000)
    (tmp_path / "small").write_text("x")
    for text in (f"${{dir:{tmp_path}:large}}" * 3, f"${{dir:{tmp_path}:small}}" * 1000):
        with pytest.raises(ConfigError, match="refers to too much"):
            config(ssl_key_password=text)
        assert config().with_dynamic({}, {"ssl.key.password": text}).ssl_key_password == text

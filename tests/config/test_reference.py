"""What config providers find is in no text that a node makes."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from wirekafka.config import describe
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.unsupported_options import refuse_unsupported
from wirekafka.config.endpoints import listeners
from wirekafka.config.option import ConfigError, Update
from wirekafka.config.options import BROKER, SaslOptions, SecurityOptions, rows
from wirekafka.config.reference import PLACEHOLDER, Reference, Resolved, revealed, value_of
from wirekafka.security import tls_context
from wirekafka.security.sasl.mechanisms import Accounts, enabled_mechanisms

SECRET = "planted-secret"
REFERENCE = "${env:PLANTED}"
PROVIDERS = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
SECURITY = sorted({**rows(SecurityOptions), **rows(SaslOptions)}.keys() & BROKER.keys())
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=b;"


def test_whatever_formats_a_resolved_value_gets_a_placeholder(caplog: Any) -> None:
    value = Resolved(SECRET)
    with caplog.at_level(logging.INFO):
        logging.getLogger().info("%s %r", value, value)
    texts = [
        str(value),
        repr(value),
        f"{value} {value!s} {value!r} {value:>20}",
        "%s %r" % (value, [value]),  # noqa: UP031
        "{} {!r}".format(value, {"key": value}),
        str("before " + value),
        str(value + " after"),
        str((value,)),
        str(ConfigError("name", value, "reason")),
        str(ConfigError("name", (value, value), "reason")),
        caplog.text,
    ]
    for text in texts:
        assert SECRET not in text and PLACEHOLDER in text


def test_a_resolved_value_is_used_as_any_other_string(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    path = Resolved(tmp_path / "file")
    assert path == str(tmp_path / "file")
    with open(path) as file:
        assert file.read() == "content"
    assert revealed(Resolved("a")) == revealed("a") == "a"


def test_a_reference_is_shown_as_it_was_written() -> None:
    reference = Reference(REFERENCE, SECRET)
    assert f"{reference} {reference!r}" == f"{REFERENCE} '{REFERENCE}'"
    assert value_of(reference) == SECRET and value_of("plain") == "plain"


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["", "listener.name.both.", "listener.name.both.plain."])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_no_message_about_a_security_option_quotes_what_it_refers_to(
    prefix: str, is_dynamic: bool, caplog: Any
) -> None:
    """Every option of TLS and SASL, in everything that reads them."""
    for name in SECURITY:
        setting = {prefix + name: f"a{REFERENCE}b"}
        for text in _messages(setting, is_dynamic=is_dynamic):
            assert SECRET not in text, (name, text)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
def test_entries_of_describe_configs_have_the_reference_in_place_of_the_value(
    is_dynamic: bool,
) -> None:
    changeable = [each for each in SECURITY if BROKER[each].update is not Update.READ_ONLY]
    for name in changeable if is_dynamic else SECURITY:
        config = _config({name: REFERENCE}, is_dynamic=is_dynamic, checked=False)
        if config is None:
            continue
        entries = {each.name: each for each in describe.describe_broker(config)}
        shown = None if BROKER[name].sensitive else REFERENCE
        assert entries[name].value == entries[name].synonyms[0].value == shown
        assert SECRET not in json.dumps(entries)


def _messages(setting: dict[str, str], *, is_dynamic: bool) -> list[str]:
    """The texts of errors, and of the configuration itself, after everything has read it."""
    found = []
    try:
        config = _config(setting, is_dynamic=is_dynamic)
        assert config is not None
    except ConfigError as error:
        return [str(error), repr(error)]

    def read_tls(own: BrokerConfig) -> None:
        material = tls_context.load_material(own)
        tls_context.server_context(own, material, own.ssl_client_auth)

    def nothing(*_: Any) -> Any:
        return lambda _: ()

    accounts = Accounts(credential=nothing, token=nothing, new_nonce=nothing, keys=nothing)
    for read in (
        lambda: read_tls(config.for_listener("both")),
        lambda: tls_context.client_context(config.for_listener("both")),
        lambda: enabled_mechanisms(config, "both", accounts),
        lambda: refuse_unsupported(config),
        lambda: listeners.listeners(config),
        lambda: listeners.between_brokers(config),
    ):
        try:
            read()
        except ConfigError as error:
            found += [str(error), repr(error), str(getattr(error, "outline", ""))]
    found += [repr(config.for_listener("both").__dict__), repr(config.sources.static)]
    found.append(json.dumps(describe.describe_broker(config)))
    return found


def _config(
    setting: dict[str, str], *, is_dynamic: bool, checked: bool = True
) -> BrokerConfig | None:
    """A configuration with the setting, None for one that is not valid unless it is `checked`."""
    base = {
        **PROVIDERS,
        "listeners": "BOTH://:0,CONTROLLER://:0",
        "listener.security.protocol.map": "BOTH:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BOTH",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.both.plain.sasl.jaas.config": _PLAIN,
    }
    environment = {"PLANTED": SECRET}
    try:
        if is_dynamic:
            return BrokerConfig.of(base, environment).with_dynamic({}, setting)
        found = BrokerConfig.of({**base, **setting}, environment)
        found.for_listener("both", "PLAIN")
    except ConfigError:
        if checked:
            raise
        return None
    return found

"""Settings without effect are reported, one by one."""

import pytest

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.checks.ignored_options import IGNORED, Ignored, ignored
from wirekafka.config.checks.unsupported_options import JAVA_SECURITY, refuse_unsupported
from wirekafka.config.docs import used_names
from wirekafka.config.option import ConfigError
from wirekafka.config.options import BROKER


def test_every_option_that_no_code_reads_is_listed():
    assert IGNORED.keys() == BROKER.keys() - used_names()


def test_a_setting_without_effect_is_reported_with_its_source_and_the_reason():
    config = BrokerConfig.of(
        {"num.io.threads": "16", "num.partitions": "3"},
        {"KAFKA_SASL_LOGIN_CLASS": "com.example.Login"},
    )
    assert list(ignored(config)) == [
        Ignored("num.io.threads", "--set", "one thread serves all requests"),
        Ignored(
            "sasl.login.class",
            "environment variable KAFKA_SASL_LOGIN_CLASS",
            "Java's classes for it are not used",
        ),
    ]


def test_a_default_value_is_not_reported():
    assert not list(ignored(BrokerConfig.of()))
    assert not list(ignored(BrokerConfig.of({"num.io.threads": " 8 ", "ssl.protocol": "TLSv1.3"})))


def test_a_setting_of_a_listener_is_reported_under_its_name():
    name = "listener.name.inside.ssl.protocol"
    [found] = ignored(BrokerConfig.of({name: "TLSv1.2"}))
    assert (found.name, found.reason) == (name, "ssl.enabled.protocols decides")


@pytest.mark.parametrize("prefix", ["", "listener.name.inside."])
@pytest.mark.parametrize("option", JAVA_SECURITY)
def test_java_security_that_cannot_be_had_prevents_the_start(option, prefix):
    for same in JAVA_SECURITY[option]:
        refuse_unsupported(BrokerConfig.of({prefix + option: same}))
    with pytest.raises(ConfigError, match="Java's security is not used") as caught:
        refuse_unsupported(BrokerConfig.of({prefix + option: "com.example"}))
    assert caught.value.name == prefix + option

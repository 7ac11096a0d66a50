"""Names of Java classes that options accept: Kafka's own, since no other class can be loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wirekafka.config.option import ConfigError, Type
from wirekafka.config.options import BROKER

_SECURITY = "org.apache.kafka.common.security"
_LOGIN = f"{_SECURITY}.authenticator"
_BEARER = f"{_SECURITY}.oauthbearer"
_UNSIGNED = f"{_BEARER}.internals.unsecured.OAuthBearerUnsecured"
_ASSIGNOR = "org.apache.kafka.coordinator.group.assignor"

CONSUMER_ASSIGNORS = {
    "uniform": f"{_ASSIGNOR}.UniformAssignor",
    "range": f"{_ASSIGNOR}.RangeAssignor",
}
"""Short names and classes of the assignors of consumer groups."""
STREAMS_ASSIGNORS = {
    "sticky": "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
}
"""Short names and classes of the assignors of streams groups."""
SHARE_ASSIGNORS = {"simple": f"{_ASSIGNOR}.SimpleAssignor"}
"""Short names and classes of the assignors of share groups."""

BUILT_IN: Mapping[str, Sequence[str]] = {
    "alter.config.policy.class.name": (),
    "client.quota.callback.class": (),
    "create.topic.policy.class.name": (),
    "group.streams.topology.description.plugin.class": (
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin",
    ),
    "principal.builder.class": (f"{_LOGIN}.DefaultKafkaPrincipalBuilder",),
    "sasl.client.callback.handler.class": (
        f"{_LOGIN}.SaslClientCallbackHandler",
        f"{_BEARER}.internals.OAuthBearerSaslClientCallbackHandler",
    ),
    "sasl.login.callback.handler.class": (
        f"{_LOGIN}.AbstractLogin$DefaultLoginCallbackHandler",
        f"{_SECURITY}.kerberos.KerberosClientCallbackHandler",
        f"{_BEARER}.OAuthBearerLoginCallbackHandler",
        f"{_UNSIGNED}LoginCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_LOGIN}.DefaultLogin",
        f"{_SECURITY}.kerberos.KerberosLogin",
        f"{_BEARER}.internals.OAuthBearerRefreshingLogin",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_BEARER}.DefaultJwtRetriever",
        f"{_BEARER}.ClientCredentialsJwtRetriever",
        f"{_BEARER}.FileJwtRetriever",
        f"{_BEARER}.JwtBearerJwtRetriever",
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        f"{_BEARER}.DefaultJwtValidator",
        f"{_BEARER}.BrokerJwtValidator",
        f"{_BEARER}.ClientJwtValidator",
    ),
    "sasl.server.callback.handler.class": (
        f"{_LOGIN}.SaslServerCallbackHandler",
        f"{_SECURITY}.plain.internals.PlainServerCallbackHandler",
        f"{_SECURITY}.scram.internals.ScramServerCallbackHandler",
        f"{_BEARER}.OAuthBearerValidatorCallbackHandler",
        f"{_UNSIGNED}ValidatorCallbackHandler",
    ),
    "ssl.engine.factory.class": (f"{_SECURITY}.ssl.DefaultSslEngineFactory",),
}
"""Kafka's own classes that each option of type class accepts."""

assert BUILT_IN.keys() == {name for name, row in BROKER.items() if row.type is Type.CLASS}

LOADED_AT_START: Mapping[str, Sequence[str]] = {
    "group.share.dlq.manager.class.name": (
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
    ),
    "group.share.persister.class.name": (
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
    ),
    "kafka.metrics.reporters": (),
    "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter",),
}
"""Kafka's own classes for options with class names that Kafka's parser does not look at.

Apache Kafka refuses an unknown class when it starts the part that uses the class.
"""


def check_class(option: str, text: str) -> None:
    """Raise ConfigError, worded as by Kafka, unless the class is one of Kafka's own.

    Whether the class is one for this option matters at a start only.
    """
    if not any(text in classes for classes in BUILT_IN.values()):
        raise ConfigError(option, text, f"Class {text} could not be found.")


def short_names(option: str, given: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """The short names of assignors, which can be given by class too. Raises ConfigError."""
    by_class = {java_class: name for name, java_class in known.items()}
    found: list[str] = []
    for text in given:
        name = by_class.get(text, text)
        if name not in known:
            raise ConfigError(option, text, "Class cannot be found")
        if name in found:
            reason = f"Assignor with name {name} is already registered."
            raise ConfigError(option, text, reason)
        found.append(name)
    return tuple(found)

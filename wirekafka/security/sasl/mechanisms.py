"""Reads which SASL mechanisms a listener enables, and with which credentials."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.option import ConfigError
from wirekafka.config.prefixed_names import jaas_option
from wirekafka.security import jaas
from wirekafka.security.sasl import oauthbearer, plain, scram
from wirekafka.security.sasl.exchange import Mechanism
from wirekafka.security.sasl.login import Enabled
from wirekafka.security.sasl.unsecured_tokens import UnsecuredValidator

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

_JAAS = "sasl.jaas.config"
_JAAS_PROPERTY = "java.security.auth.login.config"
_SERVER = "KafkaServer"
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_SIGNED = f"{_OAUTH}OAuthBearerValidatorCallbackHandler"
_UNSIGNED = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_JWT_VALIDATORS = (f"{_OAUTH}DefaultJwtValidator", f"{_OAUTH}BrokerJwtValidator")
_LOGIN_MODULES = {
    plain.NAME: plain.LOGIN_MODULE,
    oauthbearer.NAME: oauthbearer.LOGIN_MODULE,
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
    **dict.fromkeys(scram.ALGORITHMS, scram.LOGIN_MODULE),
}


class KeySource(NamedTuple):
    """Where an identity provider publishes its keys, and how often they are read again."""

    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The look-ups of mechanisms while clients log in."""

    credential: Callable[[str, int], scram.Credential | None]
    """The credential of a user for the number of a SCRAM mechanism."""
    token: Callable[[str, int], scram.TokenLogin | None]
    """The delegation token of an id for the number of a SCRAM mechanism."""
    new_nonce: Callable[[], str]
    keys: Callable[[KeySource], Callable[[str | None], Sequence[Key]]]
    """The keys of an identity provider with a key id, or all keys for None."""


class _Place(NamedTuple):
    """A mechanism of a listener, and the configuration that applies there."""

    listener: str
    mechanism: str
    config: BrokerConfig

    @property
    def jaas_name(self) -> str:
        return jaas_option(self.listener, self.mechanism)

    def refused(self, name: str, value: object, reason: str) -> ConfigError:
        return ConfigError(self.config.sources.configured_name(name), value, reason)


def enabled_mechanisms(config: BrokerConfig, listener: str, accounts: Accounts) -> Enabled:
    """The mechanisms of a listener, in the configured order. Raises ConfigError."""
    listener_config = config.for_listener(listener)
    names = listener_config.sasl_enabled_mechanisms
    if not names:
        raise ConfigError("sasl.enabled.mechanisms", "", "No SASL mechanisms are enabled")
    places = [_Place(listener, name, config.for_listener(listener, name)) for name in names]
    # The users of SCRAM are in the metadata, so that a listener with nothing else needs no login
    # module, as it does in Kafka. Beside others, SCRAM may have been enabled for another listener.
    needs_module = any(name not in scram.ALGORITHMS for name in names)
    return Enabled(
        {place.mechanism: _mechanism(place, accounts, needs_module) for place in places},
        {place.mechanism: max(0, place.config.connections_max_reauth_ms) for place in places},
    )


def login_module(config: BrokerConfig, listener: str, mechanism: str) -> jaas.LoginModule:
    """The login module by which this node logs in at other nodes' listeners of this name.

    As in Kafka, it is the mechanism's module on this node's own listener. Raises ConfigError.
    """
    place = _Place(listener, mechanism, config.for_listener(listener, mechanism))
    module = _login_module(place) if mechanism in _LOGIN_MODULES else None
    if module is None:
        reason = f"{mechanism} needs a login module to log in at other nodes"
        raise ConfigError(place.jaas_name, None, reason)
    return module


def _mechanism(place: _Place, accounts: Accounts, needs_module: bool) -> Mechanism:
    name = place.mechanism
    if name not in _LOGIN_MODULES:
        known = ", ".join(_LOGIN_MODULES)
        raise place.refused("sasl.enabled.mechanisms", name, f"not one of {known}")
    module = _login_module(place)
    if module is None and needs_module:
        reason = f"{name} needs a login module, {_LOGIN_MODULES[name]}"
        raise ConfigError(place.jaas_name, None, reason)
    handler = place.config.sasl_server_callback_handler_class
    if handler is not None and name != oauthbearer.NAME:
        raise place.refused(
            "sasl.server.callback.handler.class", handler, "Java classes cannot be loaded"
        )
    if name in scram.ALGORITHMS:
        algorithm = scram.ALGORITHMS[name]
        return scram.Scram(
            algorithm=algorithm,
            credential=lambda user: accounts.credential(user, algorithm.number),
            token=lambda token_id: accounts.token(token_id, algorithm.number),
            new_nonce=accounts.new_nonce,
        )
    assert module is not None, "only listeners with nothing but SCRAM have none"
    if name == plain.NAME:
        return plain.Plain.of(module)
    if name == oauthbearer.NAME:
        return _oauthbearer(place, module, accounts)
    return _gssapi(place, module)


def _login_module(place: _Place) -> jaas.LoginModule | None:
    text = place.config.sasl_jaas_config
    # Kafka ignores login modules that are not set for the mechanism of a listener.
    if text is None or place.config.sources.configured_name(_JAAS) != place.jaas_name:
        return _module_of_file(place)
    try:
        module = jaas.parse(text)
    except jaas.JaasError as error:
        raise _hidden(place, str(error)) from None
    expected = _LOGIN_MODULES[place.mechanism]
    if module.name != expected:
        raise _hidden(place, f"the login module of {place.mechanism} is {expected}")
    return module


def _module_of_file(place: _Place) -> jaas.LoginModule | None:
    """The mechanism's module in the JAAS file, without options if the entry lacks it.

    The entry is `<listener>.KafkaServer` or else `KafkaServer`; None without both.
    """
    path = place.config.sources.jaas_file
    if path is None:
        return None
    try:
        entries = _entries(path)
    except (OSError, ValueError) as error:
        reason = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(_JAAS_PROPERTY, path, reason) from None
    modules = entries.get(f"{place.listener.lower()}.{_SERVER}", entries.get(_SERVER))
    if modules is None:
        return None
    expected = _LOGIN_MODULES[place.mechanism]
    return next((each for each in modules if each.name == expected), jaas.LoginModule(expected, {}))


@cache
def _entries(path: Path) -> Mapping[str, Sequence[jaas.LoginModule]]:
    """The entries of a JAAS file, which is read once, as by Java. Raises OSError, ValueError."""
    return jaas.parse_file(path.read_text(encoding="utf-8"))


def _hidden(place: _Place, reason: str) -> ConfigError:
    return ConfigError(place.jaas_name, "[hidden]", reason)


def _oauthbearer(place: _Place, module: jaas.LoginModule, accounts: Accounts) -> Mechanism:
    handler = place.config.sasl_server_callback_handler_class
    if handler == _SIGNED:
        return _signed(place, accounts)
    if handler not in (None, _UNSIGNED):
        raise place.refused(
            "sasl.server.callback.handler.class", handler, "Java classes cannot be loaded"
        )
    logger.warning(
        "OAUTHBEARER on listener %s accepts unsigned tokens, which anybody can make: "
        "sasl.server.callback.handler.class does not name a validator of signatures",
        place.listener,
    )
    try:
        return oauthbearer.OAuthBearer(UnsecuredValidator.of(module))
    except ValueError:
        raise _hidden(place, "the clock skew is no number") from None


def _signed(place: _Place, accounts: Accounts) -> Mechanism:
    # Imported where needed: the library takes a tenth of a broker's start.
    from wirekafka.security.sasl.jwt import JwtValidator

    config = place.config
    if config.sasl_oauthbearer_jwt_validator_class not in _JWT_VALIDATORS:
        raise place.refused(
            "sasl.oauthbearer.jwt.validator.class",
            config.sasl_oauthbearer_jwt_validator_class,
            f"must be one of {', '.join(_JWT_VALIDATORS)}",
        )
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if not url:
        raise place.refused(
            "sasl.oauthbearer.jwks.endpoint.url", url, "must be set: signatures must be verified"
        )
    audiences = frozenset(config.sasl_oauthbearer_expected_audience)
    issuer = config.sasl_oauthbearer_expected_issuer
    _require(place, "audience", bool(audiences))
    _require(place, "issuer", bool(issuer))
    source = KeySource(
        url,
        config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )
    return oauthbearer.OAuthBearer(
        JwtValidator(
            keys=accounts.keys(source),
            issuer=issuer or None,
            audiences=audiences or None,
            clock_skew_s=config.sasl_oauthbearer_clock_skew_seconds,
            subject_claim=config.sasl_oauthbearer_sub_claim_name,
            scope_claim=config.sasl_oauthbearer_scope_claim_name,
        )
    )


def _require(place: _Place, claim: str, is_set: bool) -> None:
    """Raise ConfigError unless a claim is verified or explicitly left unverified."""
    config = place.config
    allowed = {
        "audience": config.sasl_oauthbearer_allow_unverified_audience,
        "issuer": config.sasl_oauthbearer_allow_unverified_issuer,
    }
    if is_set:
        return
    if not allowed[claim]:
        raise place.refused(
            f"sasl.oauthbearer.expected.{claim}",
            None,
            f"must be set, or sasl.oauthbearer.allow.unverified.{claim} be true",
        )
    logger.warning(
        "OAUTHBEARER on listener %s accepts tokens of any %s, as "
        "sasl.oauthbearer.allow.unverified.%s is true",
        place.listener,
        claim,
        claim,
    )


def _gssapi(place: _Place, module: jaas.LoginModule) -> Mechanism:
    from wirekafka.security.sasl.gssapi import Gssapi, KerberosUnavailable

    try:
        return Gssapi.of(module, place.config.sasl_kerberos_principal_to_local_rules)
    except KerberosUnavailable as error:
        raise ConfigError(place.jaas_name, "[hidden]", str(error)) from None

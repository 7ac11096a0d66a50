"""Options of SASL, by which clients authenticate."""

from __future__ import annotations

from wirekafka.config.check import between, one_of_any_case
from wirekafka.config.option import (
    HIGH,
    LOW,
    PER_BROKER,
    boolean,
    class_name,
    double,
    integer,
    listing,
    long,
    password,
    short,
    string,
)


class SaslOptions:
    """Broker options of SASL, by attribute."""

    sasl_client_callback_handler_class = class_name(
        None, doc="The Java class that gives a SASL client its credentials."
    )
    sasl_enabled_mechanisms = listing(
        ("GSSAPI",), update=PER_BROKER, doc="The SASL mechanisms that clients may use."
    )
    sasl_jaas_config = password(
        update=PER_BROKER, doc="Credentials in the form of Java's login modules."
    )
    sasl_kerberos_kinit_cmd = string(
        "/usr/bin/kinit", update=PER_BROKER, doc="The path of `kinit`."
    )
    sasl_kerberos_min_time_before_relogin = long(
        60_000, update=PER_BROKER, doc="The least time between two Kerberos logins."
    )
    sasl_kerberos_principal_to_local_rules = listing(
        ("DEFAULT",), update=PER_BROKER, doc="How Kerberos names become short user names."
    )
    sasl_kerberos_service_name = string(
        None, update=PER_BROKER, doc="The Kerberos service name of the brokers."
    )
    sasl_kerberos_ticket_renew_jitter = double(
        0.05,
        update=PER_BROKER,
        doc="The random share of the time before a Kerberos ticket is renewed.",
    )
    sasl_kerberos_ticket_renew_window_factor = double(
        0.8,
        update=PER_BROKER,
        doc="The share of its lifetime after which a Kerberos ticket is renewed.",
    )
    sasl_login_callback_handler_class = class_name(
        None, doc="The Java class that gives a SASL login its credentials."
    )
    sasl_login_class = class_name(None, doc="The Java class of a SASL login.")
    sasl_login_connect_timeout_ms = integer(
        None, importance=LOW, doc="How long connecting to an identity provider may take."
    )
    sasl_login_read_timeout_ms = integer(
        None, importance=LOW, doc="How long an identity provider's response may take."
    )
    sasl_login_refresh_buffer_seconds = short(
        300, update=PER_BROKER, doc="How long before it expires a token is renewed at the latest."
    )
    sasl_login_refresh_min_period_seconds = short(
        60, update=PER_BROKER, doc="The least time between two renewals of a token."
    )
    sasl_login_refresh_window_factor = double(
        0.8, update=PER_BROKER, doc="The share of its lifetime after which a token is renewed."
    )
    sasl_login_refresh_window_jitter = double(
        0.05, update=PER_BROKER, doc="The random share of the time before a token is renewed."
    )
    sasl_login_retry_backoff_max_ms = long(
        10_000, importance=LOW, doc="The longest wait before a login is retried."
    )
    sasl_login_retry_backoff_ms = long(
        100, importance=LOW, doc="How long to wait before a login is retried."
    )
    sasl_mechanism_controller_protocol = string(
        "GSSAPI", importance=HIGH, doc="The SASL mechanism brokers use with controllers."
    )
    sasl_mechanism_inter_broker_protocol = string(
        "GSSAPI", update=PER_BROKER, doc="The SASL mechanism between brokers."
    )
    sasl_oauthbearer_allow_unverified_audience = boolean(
        False, doc="Whether tokens for any audience are accepted; insecure."
    )
    sasl_oauthbearer_allow_unverified_issuer = boolean(
        False, doc="Whether tokens of any issuer are accepted; insecure."
    )
    sasl_oauthbearer_assertion_algorithm = string(
        "RS256", one_of_any_case("ES256", "RS256"), doc="How client assertions are signed."
    )
    sasl_oauthbearer_assertion_claim_aud = string(
        None, doc="The audience claim of client assertions."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(
        300, between(0, 86_400), importance=LOW, doc="How long client assertions are valid."
    )
    sasl_oauthbearer_assertion_claim_iss = string(
        None, doc="The issuer claim of client assertions."
    )
    sasl_oauthbearer_assertion_claim_jti_include = boolean(
        False, doc="Whether client assertions have a jti (unique id) claim."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        60,
        between(0, 3600),
        importance=LOW,
        doc="How far before their creation client assertions are valid.",
    )
    sasl_oauthbearer_assertion_claim_sub = string(
        None, doc="The subject claim of client assertions."
    )
    sasl_oauthbearer_assertion_file = string(None, doc="A file with a client assertion.")
    sasl_oauthbearer_assertion_private_key_file = string(
        None, doc="A file with the key that signs client assertions."
    )
    sasl_oauthbearer_assertion_private_key_passphrase = password(doc="The passphrase of that key.")
    sasl_oauthbearer_assertion_template_file = string(
        None, doc="A file with further claims of client assertions."
    )
    sasl_oauthbearer_client_credentials_client_id = string(
        None, doc="The client id at the identity provider."
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        doc="The client secret at the identity provider."
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        30, importance=LOW, doc="How far clocks may differ when tokens are validated."
    )
    sasl_oauthbearer_expected_audience = listing(
        (), importance=HIGH, doc="The audiences a token may be for."
    )
    sasl_oauthbearer_expected_issuer = string(
        None, importance=HIGH, doc="The issuer a token must have."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        3_600_000, importance=LOW, doc="How often the identity provider's keys are fetched."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        10_000, importance=LOW, doc="The longest wait before those keys are fetched again."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        100, importance=LOW, doc="How long to wait before those keys are fetched again."
    )
    sasl_oauthbearer_jwks_endpoint_url = string(
        None, doc="The URL of the identity provider's keys."
    )
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        doc="The Java class that fetches tokens.",
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        doc="The Java class that checks tokens.",
    )
    sasl_oauthbearer_scope = string(None, doc="The scope to ask the identity provider for.")
    sasl_oauthbearer_scope_claim_name = string(
        "scope", importance=LOW, doc="The name of a token's scope claim."
    )
    sasl_oauthbearer_sub_claim_name = string(
        "sub", importance=LOW, doc="The name of a token's subject claim."
    )
    sasl_oauthbearer_token_endpoint_url = string(
        None, doc="The URL of the identity provider's tokens."
    )
    sasl_server_callback_handler_class = class_name(
        None, doc="The Java class that checks credentials for a SASL server."
    )
    sasl_server_max_receive_size = integer(1 << 19, doc="The largest SASL message a broker reads.")

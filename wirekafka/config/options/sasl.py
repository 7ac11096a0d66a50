"""Options for SASL, the way clients prove who they are."""

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
    """Rows, by name."""

    sasl_client_callback_handler_class = class_name(None, doc="")
    sasl_enabled_mechanisms = listing(("GSSAPI",), update=PER_BROKER, doc="")
    sasl_jaas_config = password(update=PER_BROKER, doc="")
    sasl_kerberos_kinit_cmd = string("/usr/bin/kinit", update=PER_BROKER, doc="")
    sasl_kerberos_min_time_before_relogin = long(60_000, update=PER_BROKER, doc="")
    sasl_kerberos_principal_to_local_rules = listing(("DEFAULT",), update=PER_BROKER, doc="")
    sasl_kerberos_service_name = string(None, update=PER_BROKER, doc="")
    sasl_kerberos_ticket_renew_jitter = double(0.05, update=PER_BROKER, doc="")
    sasl_kerberos_ticket_renew_window_factor = double(0.8, update=PER_BROKER, doc="")
    sasl_login_callback_handler_class = class_name(None, doc="")
    sasl_login_class = class_name(None, doc="")
    sasl_login_connect_timeout_ms = integer(None, importance=LOW, doc="")
    sasl_login_read_timeout_ms = integer(None, importance=LOW, doc="")
    sasl_login_refresh_buffer_seconds = short(300, update=PER_BROKER, doc="")
    sasl_login_refresh_min_period_seconds = short(60, update=PER_BROKER, doc="")
    sasl_login_refresh_window_factor = double(0.8, update=PER_BROKER, doc="")
    sasl_login_refresh_window_jitter = double(0.05, update=PER_BROKER, doc="")
    sasl_login_retry_backoff_max_ms = long(10_000, importance=LOW, doc="")
    sasl_login_retry_backoff_ms = long(100, importance=LOW, doc="")
    sasl_mechanism_controller_protocol = string("GSSAPI", importance=HIGH, doc="")
    sasl_mechanism_inter_broker_protocol = string("GSSAPI", update=PER_BROKER, doc="")
    sasl_oauthbearer_assertion_algorithm = string(
        "RS256", one_of_any_case("ES256", "RS256"),
        doc="",
    )
    sasl_oauthbearer_assertion_claim_aud = string(None, doc="")
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(
        300, between(0, 86_400), importance=LOW,
        doc="",
    )
    sasl_oauthbearer_assertion_claim_iss = string(None, doc="")
    sasl_oauthbearer_assertion_claim_jti_include = boolean(False, doc="")
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(
        60, between(0, 3600), importance=LOW,
        doc="",
    )
    sasl_oauthbearer_assertion_claim_sub = string(None, doc="")
    sasl_oauthbearer_assertion_file = string(None, doc="")
    sasl_oauthbearer_assertion_private_key_file = string(None, doc="")
    sasl_oauthbearer_assertion_private_key_passphrase = password(doc="")
    sasl_oauthbearer_assertion_template_file = string(None, doc="")
    sasl_oauthbearer_client_credentials_client_id = string(None, doc="")
    sasl_oauthbearer_client_credentials_client_secret = password(doc="")
    sasl_oauthbearer_clock_skew_seconds = integer(30, importance=LOW, doc="")
    sasl_oauthbearer_expected_audience = listing((), importance=HIGH, doc="")
    sasl_oauthbearer_expected_issuer = string(None, importance=HIGH, doc="")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(3_600_000, importance=LOW, doc="")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(10_000, importance=LOW, doc="")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(100, importance=LOW, doc="")
    sasl_oauthbearer_jwks_endpoint_url = string(None, doc="")
    sasl_oauthbearer_jwt_retriever_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        doc="",
    )
    sasl_oauthbearer_jwt_validator_class = class_name(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        doc="",
    )
    sasl_oauthbearer_scope = string(None, doc="")
    sasl_oauthbearer_scope_claim_name = string("scope", importance=LOW, doc="")
    sasl_oauthbearer_sub_claim_name = string("sub", importance=LOW, doc="")
    sasl_oauthbearer_token_endpoint_url = string(None, doc="")
    sasl_server_callback_handler_class = class_name(None, doc="")
    sasl_server_max_receive_size = integer(1 << 19, doc="")

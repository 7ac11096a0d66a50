"""Options for TLS, tokens and permissions."""

from __future__ import annotations

from wirekafka.config.check import at_least, one_of
from wirekafka.config.option import (
    LOW,
    PER_BROKER,
    boolean,
    class_name,
    integer,
    listing,
    long,
    password,
    string,
)


class SecurityOptions:
    """Rows, by name."""

    authorizer_class_name = string("", importance=LOW, doc="")
    connection_failed_authentication_delay_ms = integer(100, at_least(0), importance=LOW, doc="")
    connections_max_reauth_ms = long(0, doc="")
    delegation_token_expiry_check_interval_ms = long(3_600_000, at_least(1), importance=LOW, doc="")
    delegation_token_expiry_time_ms = long(86_400_000, at_least(1), doc="")
    delegation_token_max_lifetime_ms = long(604_800_000, at_least(1), doc="")
    delegation_token_secret_key = password(doc="")
    principal_builder_class = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        update=PER_BROKER,
        doc="",
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="",
    )
    security_providers = string(None, importance=LOW, doc="")
    ssl_allow_dn_changes = boolean(False, importance=LOW, doc="")
    ssl_allow_san_changes = boolean(False, importance=LOW, doc="")
    ssl_cipher_suites = listing((), update=PER_BROKER, doc="")
    ssl_client_auth = string(
        "none", one_of("required", "requested", "none"), update=PER_BROKER,
        doc="",
    )
    ssl_enabled_protocols = listing(("TLSv1.2", "TLSv1.3"), update=PER_BROKER, doc="")
    ssl_endpoint_identification_algorithm = string(
        "https", importance=LOW, update=PER_BROKER,
        doc="",
    )
    ssl_engine_factory_class = class_name(None, importance=LOW, update=PER_BROKER, doc="")
    ssl_key_password = password(update=PER_BROKER, doc="")
    ssl_keymanager_algorithm = string("SunX509", update=PER_BROKER, doc="")
    ssl_keystore_certificate_chain = password(update=PER_BROKER, doc="")
    ssl_keystore_key = password(update=PER_BROKER, doc="")
    ssl_keystore_location = string(None, update=PER_BROKER, doc="")
    ssl_keystore_password = password(update=PER_BROKER, doc="")
    ssl_keystore_type = string("JKS", update=PER_BROKER, doc="")
    ssl_principal_mapping_rules = string("DEFAULT", importance=LOW, doc="")
    ssl_protocol = string("TLSv1.3", update=PER_BROKER, doc="")
    ssl_provider = string(None, update=PER_BROKER, doc="")
    ssl_secure_random_implementation = string(None, importance=LOW, update=PER_BROKER, doc="")
    ssl_trustmanager_algorithm = string("PKIX", update=PER_BROKER, doc="")
    ssl_truststore_certificates = password(update=PER_BROKER, doc="")
    ssl_truststore_location = string(None, update=PER_BROKER, doc="")
    ssl_truststore_password = password(update=PER_BROKER, doc="")
    ssl_truststore_type = string("JKS", update=PER_BROKER, doc="")

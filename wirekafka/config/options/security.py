"""Options of TLS, authorization and delegation tokens."""

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
from wirekafka.config.security_protocol import PROTOCOLS


class SecurityOptions:
    """Broker options of TLS, authorization and tokens, by attribute."""

    authorizer_class_name = string(
        "",
        importance=LOW,
        doc="The Java class that authorizes requests; empty allows all requests.",
    )
    connection_failed_authentication_delay_ms = integer(
        100,
        at_least(0),
        importance=LOW,
        doc="Holds a connection that failed to authenticate this long before it is closed.",
    )
    connections_max_reauth_ms = long(
        0, doc="SASL clients must authenticate again within this time; 0 means never."
    )
    delegation_token_expiry_check_interval_ms = long(
        3_600_000,
        at_least(1),
        importance=LOW,
        doc="How often expired delegation tokens are removed.",
    )
    delegation_token_expiry_time_ms = long(
        86_400_000,
        at_least(1),
        doc="How long a delegation token is valid before it must be renewed.",
    )
    delegation_token_max_lifetime_ms = long(
        604_800_000, at_least(1), doc="How long a delegation token can be renewed."
    )
    delegation_token_secret_key = password(
        doc="The secret that signs delegation tokens, the same on all nodes."
    )
    principal_builder_class = class_name(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        update=PER_BROKER,
        doc="The Java class that derives a connection's principal.",
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT",
        one_of(*PROTOCOLS),
        doc="The protocol between brokers, if `inter.broker.listener.name` is not set.",
    )
    security_providers = string(
        None, importance=LOW, doc="Java classes that provide security algorithms."
    )
    ssl_allow_dn_changes = boolean(
        False, importance=LOW, doc="Whether a new certificate may have another distinguished name."
    )
    ssl_allow_san_changes = boolean(
        False, importance=LOW, doc="Whether a new certificate may have other alternative names."
    )
    ssl_cipher_suites = listing(
        (), update=PER_BROKER, doc="The cipher suites that may be used; empty is all."
    )
    ssl_client_auth = string(
        "none",
        one_of("required", "requested", "none"),
        update=PER_BROKER,
        doc="Whether clients need a certificate: `required`, `requested` or `none`.",
    )
    ssl_enabled_protocols = listing(
        ("TLSv1.2", "TLSv1.3"), update=PER_BROKER, doc="The TLS versions that may be used."
    )
    ssl_endpoint_identification_algorithm = string(
        "https",
        importance=LOW,
        update=PER_BROKER,
        doc="How a server's name is compared with its certificate; empty does not compare.",
    )
    ssl_engine_factory_class = class_name(
        None, importance=LOW, update=PER_BROKER, doc="The Java class that makes TLS engines."
    )
    ssl_key_password = password(update=PER_BROKER, doc="The password of the private key.")
    ssl_keymanager_algorithm = string(
        "SunX509", update=PER_BROKER, doc="Java's algorithm for key managers."
    )
    ssl_keystore_certificate_chain = password(
        update=PER_BROKER, doc="The certificate chain itself, in PEM form."
    )
    ssl_keystore_key = password(update=PER_BROKER, doc="The private key itself, in PEM form.")
    ssl_keystore_location = string(
        None, update=PER_BROKER, doc="The file with the private key and its certificates."
    )
    ssl_keystore_password = password(update=PER_BROKER, doc="The password of that file.")
    ssl_keystore_type = string(
        "JKS", update=PER_BROKER, doc="That file's format: JKS, PKCS12 or PEM."
    )
    ssl_principal_mapping_rules = string(
        "DEFAULT", importance=LOW, doc="How certificates' names become short user names."
    )
    ssl_protocol = string("TLSv1.3", update=PER_BROKER, doc="The TLS version to prefer.")
    ssl_provider = string(None, update=PER_BROKER, doc="Java's security provider for TLS.")
    ssl_secure_random_implementation = string(
        None, importance=LOW, update=PER_BROKER, doc="Java's source of random numbers for TLS."
    )
    ssl_trustmanager_algorithm = string(
        "PKIX", update=PER_BROKER, doc="Java's algorithm for trust managers."
    )
    ssl_truststore_certificates = password(
        update=PER_BROKER, doc="Trusted certificates themselves, in PEM form."
    )
    ssl_truststore_location = string(
        None, update=PER_BROKER, doc="The file with trusted certificates."
    )
    ssl_truststore_password = password(update=PER_BROKER, doc="The password of that file.")
    ssl_truststore_type = string(
        "JKS", update=PER_BROKER, doc="That file's format: JKS, PKCS12 or PEM."
    )

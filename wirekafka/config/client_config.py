"""A client's configuration: the options for connecting to a secured cluster.

They have the names of Kafka's client configurations, as a file for `--command-config` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wirekafka.config import security_protocol
from wirekafka.config.check import one_of
from wirekafka.config.option import ConfigError, string
from wirekafka.config.options import SaslOptions, SecurityOptions, rows
from wirekafka.config.sources import Setting, Sources, read_properties


class ClientConfig(SecurityOptions, SaslOptions):
    """Options of a client's connections, by snake_case name, parsed and checked.

    Names that are no such options are ignored: the file may serve other clients as well.
    """

    security_protocol = string(
        "PLAINTEXT",
        one_of(*security_protocol.PROTOCOLS),
        doc="The security protocol of connections to brokers.",
    )

    sasl_mechanism = string("GSSAPI", doc="The SASL mechanism by which the client logs in.")

    def __init__(self, values: Mapping[str, str], source: str = "") -> None:
        self.sources = Sources(
            static={name: Setting(text, source) for name, text in values.items()}
        )
        for name, option in rows(ClientConfig).items():
            if name not in values:
                continue
            try:
                self.__dict__[option.attribute] = option.parse(values[name])
            except ConfigError as error:
                message = f"{error} (from {source})" if source else str(error)
                raise ConfigError(name, error.value, error.reason, message) from None

    @classmethod
    def read(cls, file: Path) -> ClientConfig:
        """Read a properties file. Raises ConfigError."""
        return cls(read_properties(file), str(file))

    @property
    def logs_in(self) -> bool:
        """Whether connections authenticate by SASL."""
        return security_protocol.logs_in(self.security_protocol)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return security_protocol.uses_tls(self.security_protocol)

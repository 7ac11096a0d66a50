"""Where settings come from: command line, environment, properties file, what is built in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from wirekafka.config.option import ConfigError

BUILT_IN = "built in"

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
}
"""Who this node is when nobody says; Kafka refuses to start, a lone broker need not."""

SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""What a lone broker needs beside Kafka's defaults, as in the server.properties Kafka ships."""

# Variables of Kafka's start scripts and images, which are no options.
_SCRIPT_VARIABLES = frozenset(
    "KAFKA_" + word for word in (
        "CLUSTER_ID", "DATA", "DEBUG", "GC_LOG_OPTS", "HEAP_OPTS", "HOME", "JMX_OPTS", "JMX_PORT",
        "JVM_PERFORMANCE_OPTS", "LOG4J_LOGGERS", "LOG4J_OPTS", "LOG4J_ROOT_LOGLEVEL", "MODE",
        "OPTS", "TOOLS_LOG4J_LOGLEVEL", "USER", "VERSION",
    ))


@dataclass(frozen=True, slots=True)
class Setting:
    """A value as written, and who wrote it."""

    text: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Static settings by name, strongest source already on top; dynamic ones above them."""

    static: Mapping[str, Setting] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        command_line: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> Sources:
        """Stack the sources; ConfigError for a file that cannot be read or understood."""
        layers = [_settings(NODE, BUILT_IN)]
        if file is None:
            layers.append(_settings(SINGLE_NODE, BUILT_IN))
        else:
            layers.append(_settings(read_properties(file), str(file)))
        layers.append(from_environment(environment or {}))
        layers.append(_settings(command_line or {}, "--set"))
        static: dict[str, Setting] = {}
        for layer in layers:
            static |= layer
        # Two names for one thing (KIP-631): whichever is given speaks for both.
        if static["node.id"].source == BUILT_IN and "broker.id" in static:
            static["node.id"] = static["broker.id"]
        static["broker.id"] = static["node.id"]
        return cls(static=static)

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Sources:
        """The same static settings under other dynamic ones."""
        return replace(self, cluster=dict(cluster), broker=dict(broker))

    def names(self) -> set[str]:
        """Every name that anybody set."""
        return {*self.static, *self.cluster, *self.broker}

    def text(self, name: str) -> str | None:
        """The strongest value given, None if nobody gave one."""
        for layer in (self.broker, self.cluster):
            if name in layer:
                return layer[name]
        return self.static[name].text if name in self.static else None

    def source(self, name: str) -> str:
        """Who gave the strongest value, in words for an error line."""
        if self.is_dynamic(name):
            return "dynamic configuration"
        return self.static[name].source if name in self.static else "default"

    def is_dynamic(self, name: str) -> bool:
        """Whether the metadata log sets it."""
        return name in self.broker or name in self.cluster


def read_properties(path: Path) -> dict[str, str]:
    """Java properties in a file; ConfigError if it is not readable as such."""
    import javaproperties

    try:
        with path.open(encoding="utf-8") as lines:
            return dict(javaproperties.load(lines))
    except OSError as error:
        raise ConfigError("--config", path, error.strerror or str(error),
                          f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError("--config", path, str(error),
                          f"{path} is not a properties file: {error}") from None


def from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """KAFKA_A_B is a.b, as in Apache's image; a double underscore is _, a triple one -."""
    return {
        option_name(variable): Setting(text, f"environment variable {variable}")
        for variable, text in environment.items()
        if variable.startswith("KAFKA_") and variable not in _SCRIPT_VARIABLES
    }


def option_name(variable: str) -> str:
    """The option that an environment variable sets."""
    name = variable.removeprefix("KAFKA_").lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _settings(values: Mapping[str, str], source: str) -> dict[str, Setting]:
    return {name: Setting(text, source) for name, text in values.items()}

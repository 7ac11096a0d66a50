"""The sources of settings: command line, environment, properties file, built-in values."""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from wirekafka.config.option import ConfigError
from wirekafka.config.providers import with_references, without_own
from wirekafka.config.reference import value_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

BUILT_IN = "built in"
_PROVIDERS = "config.providers"
_MOST_BYTES = 16 << 20
"""The size above which a file of properties is refused."""
_JAAS_FILE = "-Djava.security.auth.login.config="
_SECURITY = re.compile(r"(^|\.)(ssl|sasl)\.")

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
}
"""The node's identity where none is configured; Kafka would refuse to start."""

SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Options that differ from Kafka's defaults on a node with its own controller, as in the
server.properties that Kafka ships."""

# Variables of Kafka's start scripts and images, which are not options.
_SCRIPT_VARIABLES = frozenset(
    "KAFKA_" + word
    for word in (
        "CLUSTER_ID",
        "DATA",
        "DEBUG",
        "GC_LOG_OPTS",
        "HEAP_OPTS",
        "HOME",
        "JMX_OPTS",
        "JMX_PORT",
        "JVM_PERFORMANCE_OPTS",
        "LOG4J_LOGGERS",
        "LOG4J_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "MODE",
        "OPTS",
        "TOOLS_LOG4J_LOGLEVEL",
        "USER",
        "VERSION",
    )
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value as configured, and a description of its source; empty where none is to be named."""

    text: str
    """A `Reference` if config providers have the value."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All settings by name: static settings of the strongest source, and dynamic settings above."""

    static: Mapping[str, Setting] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    """For an option whose value was set under another name (`with_prefix`): that name."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables that are read later: by config providers, and for `jaas_file`."""

    @classmethod
    def of(
        cls,
        command_line: Mapping[str, str | Setting] | None = None,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
    ) -> Sources:
        """Merge the static sources, and replace references to config providers.

        A setting of the command line has the source `--set` unless it names another source. Raises
        ConfigError for a file that cannot be read or parsed, and for an unknown provider.
        """
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
        voters = static.get("controller.quorum.voters")
        if static["process.roles"].text.strip() == "broker" or (voters and "," in voters.text):
            # The cluster may have other brokers, so the defaults for a single node do not apply.
            static = {
                name: setting
                for name, setting in static.items()
                if setting.source != BUILT_IN or name not in SINGLE_NODE
            }
        if _PROVIDERS in static:
            texts = {name: setting.text for name, setting in static.items()}
            for name, text in with_references(texts, texts, environment or {}).items():
                static[name] = replace(static[name], text=text)
        # Two names of one option (KIP-631): a name that is given alone applies to both.
        if static["node.id"].source == BUILT_IN and "broker.id" in static:
            static["node.id"] = static["broker.id"]
        static.setdefault("broker.id", static["node.id"])
        return cls(static=static, environment=environment or {})

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Sources:
        """The same static settings with other dynamic settings.

        References to config providers are looked up in options of TLS and SASL, as in Kafka; a
        reference that finds nothing stays as it is. The static settings define the providers,
        except for the provider that only this package's own settings use.
        """
        return replace(self, cluster=self._looked_up(cluster), broker=self._looked_up(broker))

    def with_written(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> Sources:
        """As `with_dynamic`, but without look-ups, for checks that need no provider's value."""
        return replace(self, cluster=dict(cluster), broker=dict(broker))

    def refers(self, dynamic: Mapping[str, str]) -> bool:
        """Whether config providers have to read something for these dynamic settings."""
        return _PROVIDERS in self.static and any(_refers(*each) for each in dynamic.items())

    def _looked_up(self, dynamic: Mapping[str, str]) -> dict[str, str]:
        found = dict(dynamic)
        if not self.refers(dynamic):
            return found
        providers = without_own(
            {
                name: value_of(setting.text)
                for name, setting in self.static.items()
                if name.startswith(_PROVIDERS)
            }
        )
        for name, text in dynamic.items():
            if _refers(name, text):
                # As it was written: it may have been looked up before.
                written = {name: str(text)}
                try:
                    found |= with_references(written, providers, self.environment)
                except ConfigError as error:
                    logger.warning("%s is used as it is written: %s", name, error)
        return found

    def with_prefix(self, prefix: str) -> Sources:
        """These settings, with settings under `prefix` in place of the plain settings.

        A name with the prefix overrules the plain name of every source, even of stronger ones.
        """
        static, aliases = dict(self.static), dict(self.aliases)
        cluster, broker = dict(self.cluster), dict(self.broker)
        for name in self.names():
            plain = name.removeprefix(prefix)
            if not plain or plain == name:
                continue
            aliases[plain] = name
            if name in static:
                static[plain] = static[name]
            for layer in (cluster, broker):
                layer.pop(plain, None)
                if name in layer:
                    layer[plain] = layer[name]
        return replace(self, static=static, cluster=cluster, broker=broker, aliases=aliases)

    @property
    def jaas_file(self) -> Path | None:
        """The file that `java.security.auth.login.config` in KAFKA_OPTS names; None without it."""
        path = None
        # Kafka's scripts let the shell split the variable, so that quotes have no meaning.
        for word in self.environment.get("KAFKA_OPTS", "").split():
            if word.startswith(_JAAS_FILE):
                path = word.removeprefix(_JAAS_FILE).lstrip("=")
        return Path(path.removeprefix("file:")) if path else None

    def configured_name(self, name: str) -> str:
        """The name under which an option is set, which may have a listener's prefix."""
        return self.aliases.get(name, name)

    def names(self) -> set[str]:
        """Every name that is set."""
        return {*self.static, *self.cluster, *self.broker}

    def text(self, name: str) -> str | None:
        """The text of the strongest source, as it was written; None if the name is not set."""
        for layer in (self.broker, self.cluster):
            if name in layer:
                return layer[name]
        return self.static[name].text if name in self.static else None

    def static_value(self, name: str) -> str | None:
        """The value of a setting that is never dynamic; it may come from a config provider."""
        return value_of(self.static[name].text) if name in self.static else None

    def with_options_of(self, other: Sources, names: Container[str]) -> Sources:
        """These settings, with the options of these names set as in `other`."""

        def mixed(own: Mapping[str, T], others: Mapping[str, T]) -> dict[str, T]:
            kept = {name: each for name, each in own.items() if name not in names}
            return kept | {name: each for name, each in others.items() if name in names}

        return replace(
            self,
            static=mixed(self.static, other.static),
            cluster=mixed(self.cluster, other.cluster),
            broker=mixed(self.broker, other.broker),
            aliases=mixed(self.aliases, other.aliases),
        )

    def source(self, name: str) -> str:
        """A description of the strongest source, for error messages."""
        if self.is_dynamic(name):
            return "dynamic configuration"
        return self.static[name].source if name in self.static else "default"

    def is_dynamic(self, name: str) -> bool:
        """Whether a dynamic setting of the metadata log sets it."""
        return name in self.broker or name in self.cluster


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of Java properties, or a pipe. Raises ConfigError if it cannot be read or parsed.

    A larger file than 16 MiB is refused: a device may have no end.
    """
    import javaproperties

    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
        return dict(javaproperties.loads(data.decode()))
    except OSError as error:
        raise ConfigError(
            "--config", path, error.strerror or str(error), f"cannot read {path}: {error.strerror}"
        ) from None
    except ValueError as error:
        raise ConfigError(
            "--config", path, str(error), f"{path} is not a properties file: {error}"
        ) from None


def from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """The settings of KAFKA_* variables, named as in Apache's image.

    KAFKA_A_B is a.b; a double underscore is `_`, a triple one `-`.
    """
    return {
        option_name(variable): Setting(text, f"environment variable {variable}")
        for variable, text in environment.items()
        if variable.startswith("KAFKA_") and variable not in _SCRIPT_VARIABLES
    }


def option_name(variable: str) -> str:
    """The option that an environment variable sets."""
    name = variable.removeprefix("KAFKA_").lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _refers(name: str, text: str) -> bool:
    """Whether a dynamic setting may refer to a config provider."""
    return "${" in text and _SECURITY.search(name) is not None


def _settings(values: Mapping[str, str | Setting], source: str) -> dict[str, Setting]:
    return {
        name: each if isinstance(each, Setting) else Setting(each, source)
        for name, each in values.items()
    }

"""Config providers: values from elsewhere, as in `${file:/run/secrets:password}` (KIP-297).

The three providers that come with Kafka are built in; no class is loaded. The values that they find
are in no message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import EINVAL
from os.path import isfile, realpath
from pathlib import Path
from typing import Any

from wirekafka.config.option import ConfigError
from wirekafka.config.reference import Reference
from wirekafka.config.small_file import MOST_BYTES, read_small_file
from wirekafka.regex import InvalidRegex, Regex

_OPTION = "config.providers"
OWN_CLASS = "wirekafka.NodesFile"
"""The provider of the settings that `serve --secure --brokers` makes: it reads one file."""
OWN_FILE = "file"
"""The parameter of this package's own provider, which names its file."""
_COST = 10_000
"""How many characters a look-up counts for, so that a text has at most a hundred of them."""
_PACKAGE = "org.apache.kafka.common.config.provider."


@dataclass(frozen=True, slots=True)
class Provider:
    """A configured provider: its kind, its parameters and the environment it may read."""

    name: str
    parameters: Mapping[str, str]
    environment: Mapping[str, str]

    def refused(self, parameter: str, value: str, reason: str) -> ConfigError:
        return ConfigError(f"{_OPTION}.{self.name}.param.{parameter}", value, reason)

    def allowed(self, path: Path) -> bool:
        """Whether `allowed.paths` contains the path or a parent of it; true if it is not set.

        Raises ConfigError for an allowed path that is not absolute.
        """
        listed = self.parameters.get("allowed.paths", "").strip()
        if not listed:
            return True
        for text in listed.split(","):
            allowed = Path(text.strip())
            if not allowed.is_absolute():
                raise self.refused("allowed.paths", text.strip(), "must be absolute paths")
            # Resolved, so that neither `..` nor a link leads out of the allowed paths.
            if _real(path).is_relative_to(_real(allowed)):
                return True
        return False


def _real(path: Path) -> Path:
    """The path without links, as far as it exists. Raises OSError for no path of a file."""
    try:
        return Path(realpath(path))
    except ValueError as error:  # A zero byte.
        raise OSError(EINVAL, str(error)) from None


Lookup = Callable[[Provider, str, str], str | None]
"""Called with (provider, path, key); returns the value or None. Raises ConfigError."""


def with_references(
    values: Mapping[str, str], options: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """The values, each with a reference that finds something as a `Reference`.

    `options` have the providers. Raises ConfigError for an unknown provider class and for a file
    that cannot be read.
    """
    providers = _providers(options, environment)

    def looked_up(name: str, path: str, key: str) -> str | None:
        if name not in providers:
            return None
        provider, look_up = providers[name]
        return look_up(provider, path, key)

    found = {}
    for name, text in values.items():
        value = text if name.startswith(_OPTION) else _replaced(text, looked_up)
        found[name] = text if value == text else Reference(text, value)
    return found


def _replaced(text: str, looked_up: Callable[[str, str, str], str | None]) -> str:
    """The text with references, `${name:path:key}` or `${name:key}`, replaced if they are found.

    It takes time in proportion to the text, which may be a client's: Kafka's pattern does not.
    """
    parts: list[str] = []
    at, budget = 0, MOST_BYTES
    while (start := text.find("${", at)) >= 0 and (end := text.find("}", start)) >= 0:
        name, colon, rest = text[start + 2 : end].partition(":")
        path, has_path, key = rest.partition(":")
        if not has_path:
            path, key = "", rest
        value = looked_up(name, path, key) if colon else None
        budget -= len(value or "") + (_COST if colon else 0)
        if budget < 0:
            raise ConfigError(_OPTION, None, "a value refers to too much")
        parts += text[at:start], text[start : end + 1] if value is None else value
        at = end + 1
    return "".join([*parts, text[at:]])


def without_own(options: Mapping[str, str]) -> dict[str, str]:
    """The options of providers without this package's own provider, which clients may not use."""
    names = [each.strip() for each in options.get(_OPTION, "").split(",")]
    kept = [each for each in names if options.get(f"{_OPTION}.{each}.class") != OWN_CLASS]
    return {**options, _OPTION: ",".join(kept)}


def _providers(
    values: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, tuple[Provider, Lookup]]:
    found = {}
    for name in filter(None, map(str.strip, values.get(_OPTION, "").split(","))):
        kind = values.get(f"{_OPTION}.{name}.class", "").strip()
        look_up = _LOOKUPS.get(kind)
        if look_up is None:
            known = ", ".join(each for each in _LOOKUPS if each != OWN_CLASS)
            raise ConfigError(f"{_OPTION}.{name}.class", kind, f"must be one of {known}")
        prefix = f"{_OPTION}.{name}.param."
        parameters = {
            each.removeprefix(prefix): text
            for each, text in values.items()
            if each.startswith(prefix)
        }
        found[name] = Provider(name, parameters, environment), look_up
    return found


def _from_file(provider: Provider, path: str, key: str) -> str | None:
    """A property of a properties file."""
    import javaproperties

    text = _read(provider, Path(path)) if path else None
    if text is None:
        return None
    try:
        properties: dict[str, Any] = javaproperties.loads(text)
    except ValueError:
        raise ConfigError(_OPTION, path, f"{path} is not a properties file") from None
    return properties.get(key)


def _from_own_file(provider: Provider, path: str, key: str) -> str | None:
    """A property of the one file that the provider's parameter names."""
    return _from_file(provider, path, key) if path == provider.parameters.get(OWN_FILE) else None


def _from_directory(provider: Provider, path: str, key: str) -> str | None:
    """The content of a file in a directory."""
    if not path or Path(key).name != key:
        return None
    file = Path(path) / key
    return _read(provider, file) if isfile(file) else None


def _from_environment(provider: Provider, path: str, key: str) -> str | None:
    """An environment variable that `allowlist.pattern` matches; any if no pattern is set."""
    if path:
        raise ConfigError(_OPTION, path, "environment variables have no path")
    pattern = provider.parameters.get("allowlist.pattern")
    try:
        if pattern is not None and not Regex(pattern).matches(key):
            return None
    except InvalidRegex as error:
        raise provider.refused("allowlist.pattern", pattern or "", str(error)) from None
    return provider.environment.get(key)


def _read(provider: Provider, path: Path) -> str | None:
    """The text of a file; None if the provider may not read it. Raises ConfigError."""
    try:
        return read_small_file(path).decode() if provider.allowed(path) else None
    except OSError as error:
        raise ConfigError(_OPTION, path, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(_OPTION, path, f"{path} is not UTF-8 text") from None


_LOOKUPS: dict[str, Lookup] = {
    f"{_PACKAGE}FileConfigProvider": _from_file,
    f"{_PACKAGE}DirectoryConfigProvider": _from_directory,
    f"{_PACKAGE}EnvVarConfigProvider": _from_environment,
    OWN_CLASS: _from_own_file,
}

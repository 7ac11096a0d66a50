"""Config providers: values that stand elsewhere, as in `${file:/run/secrets:password}` (KIP-297).

The three providers that come with Kafka are built in; no class is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wirekafka.config.option import ConfigError
from wirekafka.regex import InvalidRegex, Regex

_OPTION = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
_MOST_BYTES = 1 << 20


class _Reference(NamedTuple):
    """A reference to a value, as it is written and in parts."""

    text: str
    provider: str
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class Provider:
    """A configured provider: its kind, its parameters and the environment it may read."""

    name: str
    parameters: Mapping[str, str]
    environment: Mapping[str, str]

    def refused(self, parameter: str, value: str, reason: str) -> ConfigError:
        return ConfigError(f"{_OPTION}.{self.name}.param.{parameter}", value, reason)

    def allowed(self, path: Path) -> bool:
        """Whether `allowed.paths` contains the path or one of its parents; all if it is not set.

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
            if path.resolve().is_relative_to(allowed.resolve()):
                return True
        return False


Lookup = Callable[[Provider, str, str], str | None]
"""Called with (provider, path, key); returns the value or None. Raises ConfigError."""


def resolved(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The values with references to providers replaced; those that find nothing stay as they are.

    Raises ConfigError for an unknown provider class and for a file that cannot be read.
    """
    providers = _providers(values, environment)
    if not providers:
        return dict(values)

    def replaced(reference: _Reference) -> str:
        found = providers.get(reference.provider)
        if found is None:
            return reference.text
        provider, look_up = found
        value = look_up(provider, reference.path, reference.key)
        return reference.text if value is None else value

    return {
        name: text if name.startswith(_OPTION) else _with_references(text, replaced)
        for name, text in values.items()
    }


def _with_references(text: str, replaced: Callable[[_Reference], str]) -> str:
    """Replace `${provider:path:key}` and `${provider:key}`.

    By hand, as an expression takes time with a power of the length of `${:${:${:`.
    """
    *ended, rest = text.split("}")
    parts = []
    for each in ended:
        before, start, inside = each.partition("${")
        provider, colon, place = inside.partition(":")
        if not colon:
            parts.append(each + "}")
            continue
        path, colon, key = place.partition(":")
        reference = _Reference(
            start + inside + "}", provider, path if colon else "", key if colon else place
        )
        parts += (before, replaced(reference))
    return "".join((*parts, rest))


def _providers(
    values: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, tuple[Provider, Lookup]]:
    found = {}
    for name in filter(None, map(str.strip, values.get(_OPTION, "").split(","))):
        kind = values.get(f"{_OPTION}.{name}.class", "").strip()
        look_up = _LOOKUPS.get(kind.removeprefix(_PACKAGE)) if kind.startswith(_PACKAGE) else None
        if look_up is None:
            known = ", ".join(_PACKAGE + each for each in _LOOKUPS)
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


def _from_directory(provider: Provider, path: str, key: str) -> str | None:
    """The content of a file in a directory."""
    if not path or Path(key).name != key:
        return None
    file = Path(path) / key
    return _read(provider, file) if file.is_file() else None


def _from_environment(provider: Provider, path: str, key: str) -> str | None:
    """An environment variable that `allowlist.pattern` matches, any if that is not set."""
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
    if not provider.allowed(path):
        return None
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(_OPTION, path, f"{path} is larger than {_MOST_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise ConfigError(_OPTION, path, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(_OPTION, path, f"{path} is not UTF-8 text") from None


_LOOKUPS: dict[str, Lookup] = {
    "FileConfigProvider": _from_file,
    "DirectoryConfigProvider": _from_directory,
    "EnvVarConfigProvider": _from_environment,
}

"""The settings of `serve --mirror`, checked at the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from wirekafka.config.address import Address
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.client_config import ClientConfig
from wirekafka.config.endpoints.controllers import addresses
from wirekafka.config.option import ConfigError
from wirekafka.config.own import (
    MIRROR,
    MIRROR_CLIENT,
    MIRROR_CONFIGS,
    MIRROR_FROM,
    MIRROR_GROUPS,
    MIRROR_ONCE,
    MIRROR_RATE,
    MIRROR_REFRESH,
    MIRROR_TOPICS,
    mirror_source,
)
from wirekafka.config.sources import Sources
from wirekafka.regex import InvalidRegex, Regex
from wirekafka.server.mirroring.source_security import SourceSecurity

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_REFRESH_MS = 5_000
_LEAST_REFRESH_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """Which cluster is mirrored, and what of it."""

    bootstrap: tuple[Address, ...]
    security: SourceSecurity | None
    """None for plain connections."""
    topics: Regex
    groups: Regex | None
    """The groups whose offsets are copied; None for no group."""
    copies_configs: bool
    from_ms: int | None
    """How far back, in ms, the copy of a new topic begins; None for its start."""
    is_once: bool
    rate_bytes: int
    """How many bytes a second are fetched at the most; 0 for no limit."""
    refresh_ms: int
    """How often the source's topics are looked at."""

    @classmethod
    def of(cls, config: BrokerConfig) -> MirrorSettings | None:
        """The configured settings; None if nothing is mirrored. Raises ConfigError."""
        sources = config.sources
        text = mirror_source(sources)
        if text is None:
            return None
        if not config.has_own_controller or len(addresses(config)) > 1:
            refuse_several(text)
        file = (sources.static_value(MIRROR_CLIENT) or "").strip()
        groups = _pattern(sources, MIRROR_GROUPS)
        return cls(
            bootstrap=tuple(_address(each) for each in text.split(",") if each.strip()),
            security=SourceSecurity(ClientConfig.read(Path(file))) if file else None,
            topics=_pattern(sources, MIRROR_TOPICS) or Regex(".*"),
            groups=groups,
            copies_configs=_is_true(sources, MIRROR_CONFIGS),
            from_ms=_duration_ms(sources, MIRROR_FROM),
            is_once=_is_true(sources, MIRROR_ONCE),
            rate_bytes=_number(sources, MIRROR_RATE, 0),
            refresh_ms=max(_number(sources, MIRROR_REFRESH, _REFRESH_MS), _LEAST_REFRESH_MS),
        )

    @property
    def source(self) -> str:
        """The bootstrap addresses."""
        return ",".join(map(str, self.bootstrap))


def refuse_several(source: str) -> NoReturn:
    """Raise ConfigError for a node that is one of several."""
    reason = "only a single node can be a mirror, not one of several in a cluster"
    raise ConfigError(MIRROR, source, reason)


def _address(text: str) -> Address:
    try:
        return Address.parse(text.strip())
    except ValueError:
        raise ConfigError(MIRROR, text, "expected HOST:PORT[,HOST:PORT...]") from None


def _pattern(sources: Sources, name: str) -> Regex | None:
    text = (sources.static_value(name) or "").strip()
    if not text:
        return None
    try:
        return Regex(text)
    except InvalidRegex as error:
        raise ConfigError(name, text, f"not a regular expression: {error}") from None


def _is_true(sources: Sources, name: str) -> bool:
    text = (sources.static_value(name) or "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(name, text, "expected true or false")
    return text == "true"


def _number(sources: Sources, name: str, default: int) -> int:
    text = (sources.static_value(name) or str(default)).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ConfigError(name, text, "expected a number")
    return int(text)


def _duration_ms(sources: Sources, name: str) -> int | None:
    text = (sources.static_value(name) or "").strip()
    if not text:
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS_MS or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise ConfigError(name, text, "expected a number with a unit of s, m, h, d or w, as 1h")
    return int(number) * _UNITS_MS[unit]

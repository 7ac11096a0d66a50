"""What has a schema registry beside it: a broker or a cluster under test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wirekafka.config.client_config import ClientConfig
from wirekafka.testing.engine import Engine

if TYPE_CHECKING:
    from wirekafka.testing.registry.companion import CompanionRegistry
    from wirekafka.testing.registry.schemas import Schemas


class RegistryOwner:
    """Starts and stops its registry, if it has one; brokers ask the registry about schemas."""

    _registry: CompanionRegistry | None = None

    @property
    def schema_registry_url(self) -> str:
        """Where the schema registry serves, such as "http://127.0.0.1:32769"."""
        self._require_running()
        return self._known_registry.url

    @property
    def schemas(self) -> Schemas:
        """The schemas of the registry: to register them, to decode records, and faults."""
        return self._known_registry.schemas

    def _require_running(self) -> None:
        """Raise EngineGone unless brokers run."""
        raise NotImplementedError

    @property
    def _known_registry(self) -> CompanionRegistry:
        if self._registry is None:
            kind = type(self).__name__
            raise RuntimeError(
                f"this {kind.lower()} has no schema registry: {kind}(schema_registry=True)"
            )
        return self._registry

    def _serve_registry(
        self, bootstrap: str, config: ClientConfig | None, brokers: Iterable[Engine]
    ) -> None:
        if self._registry is not None:
            access = self._registry.start(bootstrap, config)
            for broker in brokers:
                broker.validate_by(access)

    def _stop_registry(self) -> None:
        if self._registry is not None:
            self._registry.stop()


def companion_registry(host: str) -> CompanionRegistry:
    """A schema registry; imported only now. Raises ImportError with a hint."""
    try:
        from wirekafka.testing.registry.companion import CompanionRegistry
    except ModuleNotFoundError as error:
        hint = f"schema_registry=True needs `pip install 'wirekafka[registry]'`: {error}"
        raise ModuleNotFoundError(hint) from None
    return CompanionRegistry(host)

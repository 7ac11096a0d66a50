"""Starts and stops a node that is a controller and no broker (`process.roles=controller`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.routes import CONTROLLERS
from wirekafka.clock import Timer
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.config.endpoints import listeners as addresses
from wirekafka.log.directories.log_directory import LogDirectory
from wirekafka.log.disk_errors import storage_error
from wirekafka.log.files import Disk
from wirekafka.metadata.broker.claim import check_formatted, claim, locked
from wirekafka.metadata.broker.source import Foundation, SourceParts
from wirekafka.metadata.controller.registration import Endpoint
from wirekafka.metadata.image.committed_image import CommittedImage
from wirekafka.metadata.image.snapshot_schedule import SnapshotSchedule
from wirekafka.server.background.threads import OwnThread
from wirekafka.server.binding import Bindings
from wirekafka.server.connections.listener import Listener
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.controllers.controller_host import ControllerHost
from wirekafka.server.controllers.local_source import LocalSource
from wirekafka.server.controllers.remote_source import Controllers
from wirekafka.server.node import Platform
from wirekafka.server.start_line import start_line

logger = logging.getLogger(__name__)

_KEEP_HOUSE_MS = 5_000


class ControllerNode:
    """A controller with its listeners and periodic tasks, on the running event loop."""

    def __init__(self, config: BrokerConfig, platform: Platform | None = None):
        """`config` must have passed `refuse_unsupported`."""
        self._config = config
        self._platform = platform or Platform()
        self._bindings = Bindings(self._platform.net)
        self._look_ups = OwnThread("look-ups")
        self._directories: list[LogDirectory] = []
        self._published = CommittedImage()
        self._opened: LocalSource | None = None
        self._timer: Timer | None = None
        self._cluster_id = ""
        self._is_stopped = False
        self.failure: Exception | None = None
        """The error after which the node must be stopped, or None."""
        self.on_failure: Callable[[], None] = lambda: None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first listener."""
        return self.listeners[0].address

    @property
    def metadata_directory(self) -> LogDirectory:
        """The log directory of the metadata log; once the node is open."""
        return self._directories[0]

    @property
    def source(self) -> LocalSource:
        """The controller, with its log; once this has been opened."""
        assert self._opened is not None, "not open"
        return self._opened

    @property
    def listeners(self) -> Sequence[Listener]:
        """All listeners, in the configured order."""
        return self._bindings.listeners

    @property
    def start_line(self) -> str:
        """The line of the log about the started node and its addresses."""
        return start_line(self._config, self._cluster_id, self._directories, self._bindings)

    async def start(self) -> None:
        """Start, and return once brokers are served.

        Raises ConfigError, UnusableDirectory, CorruptLog, OSError, KafkaError.
        """
        self._look_ups.start()
        await self.open()
        self._bindings.start_thread()
        self._keep_house_later()

    async def open(self) -> None:
        """`start` without the periodic tasks, for tests that run them themselves."""
        registry.load()
        platform = self._platform
        listeners = addresses.listeners(self._config)
        self._clock = platform.clock()
        disk = platform.disk()
        check_formatted(disk, self._config, platform.cluster_id)
        platform.check_directories(disk, self._config)
        binding = self._bindings.add(self._config, Pipeline(routes=CONTROLLERS))
        try:
            self._directories = locked(disk, self._config)
            binding.bind(listeners.controller)
            endpoints = binding.endpoints(listeners.advertised_controller)
            self._opened = source = self._source(self._foundation(disk, endpoints))
            source.load()
            now_ms = self._clock.now_ms()
            self._snapshots = SnapshotSchedule(source.log, self._published, now_ms)
            host = ControllerHost(source.controller, self._published, platform.new_id)
            await binding.start(host)
            await source.catch_up()
            await source.start()
        except BaseException:
            self.abort()
            raise

    async def stop(self) -> None:
        """Shut down cleanly: finish current requests, and close the metadata log.

        Failures to write are logged; the next start then recovers the log.
        """
        self._stop_keeping_house()
        await self.source.resign()
        self._bindings.stop_accepting()
        await self._bindings.drain()
        self._bindings.stop_thread()
        await self.source.stop()
        self._look_ups.stop()
        self._snapshots.write_at_stop()
        for directory in self._directories:
            try:
                directory.close_cleanly({}, -1)
            except OSError as error:
                logger.error("%s has to be recovered at the next start: %s", directory.path, error)

    def abort(self) -> None:
        """Stop at once and leave the log directories as a killed process does."""
        self._stop_keeping_house()
        self._bindings.stop_accepting()
        self._bindings.cut_connections()
        self._bindings.stop_thread()
        if self._opened is not None:
            self._opened.abort()
        self._look_ups.stop()
        for directory in self._directories:
            directory.release()

    def _foundation(self, disk: Disk, endpoints: Sequence[Endpoint]) -> Foundation:
        platform = self._platform
        known = Controllers(platform.net, self._clock, self._config)
        return Foundation(
            config=self._config,
            clock=self._clock,
            disk=disk,
            new_id=platform.new_id,
            cluster_id=platform.cluster_id,
            source=lambda parts: LocalSource(parts, known),
            controller_endpoints=endpoints,
            sync=platform.sync,
            run_apart=self._look_ups.run,
            failed=self.fail,
            resolve=platform.net.resolve,
            users=platform.first_users,
        )

    def _source(self, foundation: Foundation) -> LocalSource:
        new_id = foundation.new_id
        cluster_id = claim(self._directories, self._config.node_id, foundation.cluster_id, new_id)
        self._cluster_id = cluster_id
        for directory in self._directories:
            directory.on_failure = partial(self._directory_failed, directory)
        source = foundation.source(
            SourceParts(
                foundation=foundation,
                config=lambda: self._config,
                cluster_id=cluster_id,
                directory=self._directories[0],
                incarnation_id=new_id(),
                published=self._published,
            )
        )
        assert isinstance(source, LocalSource), "created above"
        return source

    def _directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        logger.critical("Log directory %s has failed: %s", directory.path, error)
        if directory is self._directories[0]:
            self.fail(storage_error(error))

    def fail(self, failure: Exception) -> None:
        """Note an error after which the node must be stopped, and report it."""
        self.failure = failure
        self.on_failure()

    def _keep_house_later(self) -> None:
        if not self._is_stopped:
            self._timer = self._clock.call_later(_KEEP_HOUSE_MS, self._keep_house)

    def _keep_house(self) -> None:
        """Close idle connections, write a snapshot if one is due, and check the free space."""
        now_ms = self._clock.now_ms()
        try:
            for listener in self.listeners:
                listener.sweep(now_ms)
            self._snapshots.write_if_due(self.source.controller.config, now_ms)
            self._snapshots.clean_if_due(now_ms)
            self._check_space(self.metadata_directory, now_ms)
        except Exception:
            logger.exception("Keeping house failed; it is repeated")
        self._keep_house_later()

    def _check_space(self, directory: LogDirectory, now_ms: int) -> None:
        """Note whether the directory is full: the metadata log is written as long as it is not."""
        try:
            directory.check_space(1, now_ms)
        except OSError as error:
            directory.note(error)

    def _stop_keeping_house(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

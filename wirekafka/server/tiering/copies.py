"""The copies that this broker makes, and which copies in the metadata nobody continues any more."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from wirekafka.broker import Broker
from wirekafka.server.tiering.remote_metadata import READ_BACK_MS
from wirekafka.tiered.remote_segment import RemoteSegment, SegmentState
from wirekafka.tiered.store import StoreError

_COPY_MS = 120_000
_LEAST_COPY_RATE = 1 << 20
"""Bytes a second: a slower copy is given up, since it has probably stopped for good."""
_MARGIN_MS = 600_000
"""For clocks that differ, and for a broker that was paused, before its copy counts as given up."""


def copy_limit_ms(size_bytes: int) -> int:
    """How long the upload of a segment may take."""
    return _COPY_MS + size_bytes * 1_000 // _LEAST_COPY_RATE


class Upload:
    """The upload of one segment by a thread, which may go on after it was given up."""

    def __init__(self, run: Callable[[Event], bytes | None]):
        self._run = run
        self._given_up = Event()
        self._lock = Lock()
        self.is_running = False

    def __call__(self) -> bytes | None:
        with self._lock:
            if self._given_up.is_set():
                raise StoreError("the copy was given up")
            self.is_running = True
        try:
            return self._run(self._given_up)
        finally:
            self.is_running = False

    def give_up(self) -> None:
        """Let the thread end early, or not begin; it deletes what it has stored."""
        with self._lock:
            self._given_up.set()


class Copies:
    """The copies of this process, by the ids of their segments."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._started_ms = broker.clock.now_ms()
        self._copying: set[bytes] = set()
        self._uploads: dict[bytes, Upload] = {}
        """Uploads that were given up, and may still run."""
        self._uncertain: dict[bytes, int] = {}
        """When, in ms, the record of a finished copy was written whose fate is unknown."""

    def begin(self, segment: RemoteSegment) -> None:
        """A copy begins."""
        self._copying.add(segment.id)

    def end(self, segment: RemoteSegment, upload: Upload) -> None:
        """A copy has ended or was given up."""
        self._copying.discard(segment.id)
        for segment_id, each in list(self._uploads.items()):
            if not each.is_running:
                del self._uploads[segment_id]
        if upload.is_running:
            self._uploads[segment.id] = upload

    def finish_is_uncertain(self, segment: RemoteSegment) -> None:
        """It is not known whether the record that a copy is finished has been written.

        It may come into effect later, and local segments are deleted then.
        """
        now_ms, settled_ms = self._broker.clock.now_ms(), self._settled_ms()
        for segment_id, since_ms in list(self._uncertain.items()):
            if now_ms - since_ms > settled_ms:
                del self._uncertain[segment_id]
        self._uncertain[segment.id] = now_ms

    def is_active(self, segment: RemoteSegment) -> bool:
        """Whether a segment is being copied here, or its upload has not ended."""
        upload = self._uploads.get(segment.id)
        return segment.id in self._copying or (upload is not None and upload.is_running)

    def is_left_over(self, segment: RemoteSegment) -> bool:
        """Whether a deletion was not completed, or nobody continues a copy.

        It is not enough that a copy has failed: the record that it is finished may still be on its
        way, and brokers that read it delete their local segments.
        """
        if segment.state is SegmentState.COPY_FINISHED or self.is_active(segment):
            return False
        now_ms, settled_ms = self._broker.clock.now_ms(), self._settled_ms()
        if segment.broker_id != self._broker.node_id:
            # Another broker may still be copying: it does not know yet that it does not lead.
            limit_ms = copy_limit_ms(segment.size_bytes) + 2 * settled_ms + _MARGIN_MS
            return now_ms - segment.event_ms > limit_ms
        if segment.state is SegmentState.DELETE_STARTED:
            return True
        uncertain_ms = self._uncertain.get(segment.id, self._started_ms)
        return now_ms - uncertain_ms > settled_ms

    def _settled_ms(self) -> int:
        """After which a record that was sent to the metadata topic has arrived, or never will.

        The leader has it, or the request for it has been dropped with its connection.
        """
        return 2 * (self._broker.config.request_timeout_ms + READ_BACK_MS)

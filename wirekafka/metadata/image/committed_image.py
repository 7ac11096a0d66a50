"""The image of the committed metadata on a node without a broker."""

from __future__ import annotations

from wirekafka.metadata.image.image import MetadataImage
from wirekafka.runtime.observation import Committed


class CommittedImage:
    """A `Published` image that is folded over the committed batches, without a host."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.end_offset = 0

    def take(self, committed: Committed) -> None:
        """Replay a batch into the image; an `Observer`."""
        if committed.is_snapshot:
            image = MetadataImage()
            for record in committed.records:
                image.replay(record)
            self.image.become(image)
        else:
            for record in committed.records:
                self.image.replay(record)
        self.end_offset = committed.end_offset

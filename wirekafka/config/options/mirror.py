"""Options of topics that are mirrors of another cluster's topics."""

from __future__ import annotations

from wirekafka.config.option import boolean, string


class MirrorOptions:
    """Topic options of mirrors, by attribute; described only where a topic sets them."""

    __slots__ = ()

    wirekafka_mirror_promoted = boolean(
        False,
        internal=True,
        doc="Whether a mirrored topic has become an ordinary topic, which clients write to. As "
        "`wirekafka mirror promote`.",
    )
    wirekafka_mirror_source = string(
        "",
        internal=True,
        doc="The cluster and the topic that a mirrored topic is copied from, as "
        "`CLUSTER_ID/TOPIC_ID`; set by `serve --mirror`. Until it is promoted, the topic is "
        "read-only.",
    )

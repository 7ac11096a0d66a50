"""The marker of a sink's last batch, as the text of committed offsets."""

from __future__ import annotations

import json
from dataclasses import replace

from wirekafka.client.sink_marker import Marker, group_of, newest
from wirekafka.client.transactions import OffsetAndMetadata

MARKER = Marker("query", "run", 5, 10, 60, 1000, 3, 1_700_000_000_000, "host/1", "file:/ck")


def test_marker_survives_its_text() -> None:
    found = newest({"orders": OffsetAndMetadata(7, MARKER.to_json())})
    assert found.marker == MARKER
    assert found.offsets == {"orders": 7}


def test_newest_of_several_topics_counts() -> None:
    newer = replace(MARKER, batch=6, at_ms=MARKER.at_ms + 1)
    offsets = {
        "a": OffsetAndMetadata(1, newer.to_json()),
        "b": OffsetAndMetadata(2, MARKER.to_json()),
    }
    found = newest(offsets)
    assert found.marker == newer
    assert found.offsets == {"a": 1, "b": 2}


def test_other_texts_are_no_markers() -> None:
    texts = ["", "{}", "[]", "null", '{"query": "only"}']
    assert (
        newest({str(at): OffsetAndMetadata(at, text) for at, text in enumerate(texts)}).marker
        is None
    )


def test_fields_of_later_releases_are_passed_over() -> None:
    text = json.dumps(json.loads(MARKER.to_json()) | {"later": 1})
    assert newest({"orders": OffsetAndMetadata(7, text)}).marker == MARKER


def test_long_checkpoint_does_not_exceed_what_brokers_accept() -> None:
    assert len(replace(MARKER, checkpoint="file:/" + "x" * 10_000).to_json()) < 4096


def test_group_has_the_name_of_the_transactional_id() -> None:
    assert group_of("orders-sink") == "wirekafka-sink-orders-sink"

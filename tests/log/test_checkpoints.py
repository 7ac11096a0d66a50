"""Kafka's small text files, byte for byte, and how malformed ones are handled."""

from __future__ import annotations

import json

import pytest

from wirekafka.log.checkpoints import (
    BadCheckpoint,
    clean_shutdown_from,
    clean_shutdown_text,
    meta_properties_text,
    offsets_from,
    offsets_text,
    partition_metadata_from,
    partition_metadata_text,
    properties_from,
    uuid_from,
    uuid_text,
)

TOPIC_ID = bytes(range(16))


def test_offsets_are_lines_of_topic_partition_and_offset() -> None:
    offsets = {("a.b-c", 0): 5, ("a.b-c", 12): 1 << 40}
    assert offsets_text(offsets) == b"0\n2\na.b-c 0 5\na.b-c 12 1099511627776\n"
    assert offsets_from(offsets_text(offsets)) == offsets


def test_an_empty_offset_file_holds_none() -> None:
    assert offsets_from(b"") == {}
    assert offsets_from(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "text",
    [b"1\n0\n", b"0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"x\n0\n", b"\0" * 20],
)
def test_a_broken_offset_file_is_refused(text: bytes) -> None:
    with pytest.raises(BadCheckpoint):
        offsets_from(text)


def test_partition_metadata_is_43_bytes_without_a_final_newline() -> None:
    text = partition_metadata_text(TOPIC_ID)
    assert text == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert len(text) == 43
    assert partition_metadata_from(text) == TOPIC_ID


@pytest.mark.parametrize("text", [b"", b"\0" * 43, b"version: 0\ntopic_id: zzz", b"version: 0\n"])
def test_partition_metadata_without_a_topic_id_has_none(text: bytes) -> None:
    assert partition_metadata_from(text) is None


def test_meta_properties_are_version_1_with_base64url_ids() -> None:
    text = meta_properties_text("my-cluster", 3, TOPIC_ID)
    assert properties_from(text) == {
        "version": "1",
        "cluster.id": "my-cluster",
        "node.id": "3",
        "directory.id": "AAECAwQFBgcICQoLDA0ODw",
    }


def test_properties_are_read_as_kafka_writes_them() -> None:
    text = b"#\n#Sat Nov 21 11:29:00 UTC 2026\ncluster.id=x=y\nversion=1\n\n node.id = 1 \n"
    assert properties_from(text) == {"cluster.id": "x=y", "version": "1", "node.id": "1"}
    assert properties_from(rb"cluster.id=x\=\\\:y") == {"cluster.id": r"x=\:y"}


def test_characters_of_a_cluster_id_are_escaped_as_java_does() -> None:
    text = meta_properties_text(r"x=\:#!y zé", 3, TOPIC_ID)
    assert rb"cluster.id=x\=\\\:\#\!y z\u00e9" in text
    assert properties_from(text)["cluster.id"] == r"x=\:#!y zé"


def test_an_escape_that_is_none_is_a_bad_checkpoint() -> None:
    with pytest.raises(BadCheckpoint, match="escape"):
        properties_from(rb"cluster.id=\u12")


def test_the_clean_shutdown_marker_is_kafkas_json() -> None:
    assert clean_shutdown_text(12) == b'{"version":0,"brokerEpoch":12}'
    assert json.loads(clean_shutdown_text(-1)) == {"version": 0, "brokerEpoch": -1}
    assert clean_shutdown_from(clean_shutdown_text(12)) == 12


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"version":0}', b'{"brokerEpoch":"x"}'])
def test_a_marker_without_an_epoch_is_still_a_marker(text: bytes) -> None:
    assert clean_shutdown_from(text) == -1


def test_uuids_are_22_characters() -> None:
    assert uuid_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_from("AAAAAAAAAAAAAAAAAAAAAQ") == bytes(15) + b"\1"
    with pytest.raises(ValueError, match="16 bytes"):
        uuid_from("AAAA")

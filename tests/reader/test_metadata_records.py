"""The records of the metadata topic, from a directory: all of them, or the damage is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reader.contradictory_batches import CONTRADICTORY_BATCH, WHOLE_BATCH
from tests.reader.memory_files import MemoryFiles
from wirekafka.reader import DamagedLog
from wirekafka.reader.directory_source import DirectorySource
from wirekafka.reader.joined_source import metadata_records
from wirekafka.tiered.metadata_record import REMOTE_LOG_METADATA_TOPIC


def test_records_that_contradict_their_batch_are_damage_of_a_file(tmp_path: Path) -> None:
    files = MemoryFiles(tmp_path)
    name = f"{tmp_path}/{REMOTE_LOG_METADATA_TOPIC}-0/{0:020d}.log"
    files.files[name] = WHOLE_BATCH + CONTRADICTORY_BATCH
    local = DirectorySource(files, [files.root], reads_uncommitted_tail=True)
    with pytest.raises(DamagedLog) as raised:
        list(metadata_records(local))
    assert (raised.value.file, raised.value.position) == (name, len(WHOLE_BATCH))

"""What the processes that Spark starts for each batch of a sink have to load."""

from __future__ import annotations

import subprocess
import sys


def test_plan_and_commit_of_a_batch_load_neither_reader_nor_encoder() -> None:
    code = "import sys, wirekafka.spark.source; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "wirekafka.spark.batch_commit" in loaded
    heavy = ("pyarrow.compute", "wirekafka.reader", "wirekafka.tables")
    assert not [name for name in loaded if name.startswith(heavy)]

"""The reader loads nothing of a broker."""

from __future__ import annotations

import subprocess
import sys

from tests.test_layout import LAYERS


def test_the_reader_loads_no_layer_above_it() -> None:
    code = "import sys, wirekafka.reader; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in done.stdout.split() if name.startswith("wirekafka.")}
    assert loaded & set(LAYERS[LAYERS.index("reader") + 1 :]) == set()
    ours = [name for name in done.stdout.split() if name.startswith("wirekafka.")]
    assert len(ours) < 100
    assert "obstore" not in done.stdout.split()

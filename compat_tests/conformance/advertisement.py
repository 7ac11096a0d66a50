"""Records which versions releases of Apache Kafka advertise, for the remarks of reports.

    python -m compat_tests.conformance.advertisement 4.4=HOST:PORT [3.9=HOST:PORT ...]

Releases that are not named keep what is recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from wirekafka.apis.shared import registry
from wirekafka.config.address import Address
from wirekafka.conformance import recordings
from wirekafka.conformance.reports.remarks import ADVERTISED
from wirekafka.conformance.target import ClusterUnderTest

FILE = Path(recordings.__file__).parent / ADVERTISED


def main(words: Sequence[str]) -> None:
    """Ask the named brokers, and write the file again."""
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    registry.load()
    names = {each.request.key: each.request.__name__ for each in registry.declared()}
    for word in words:
        release, _, address = word.partition("=")
        target = ClusterUnderTest([Address.parse(address)])
        target.look()
        for versions in found.values():
            versions.pop(release, None)
        for key, (low, high) in target.versions.items():
            api = f"{key} {names.get(key, str(key)).removesuffix('Request')}"
            found.setdefault(api, {})[release] = recordings.ranges(range(low, high + 1))
    lines = [
        f"  {json.dumps(api)}: {json.dumps(dict(sorted(versions.items())))}"
        for api, versions in sorted(found.items(), key=lambda each: int(each[0].split()[0]))
        if versions
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])

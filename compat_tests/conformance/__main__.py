"""`python -m compat_tests.conformance`: the same as `wirekafka conformance`."""

from __future__ import annotations

import sys

from wirekafka.cli.main import main

if __name__ == "__main__":
    main(["conformance", *sys.argv[1:]])

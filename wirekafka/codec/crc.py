"""CRC-32C, the checksum of record batches and of the producer snapshot files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

__all__ = ["crc32c"]

_PACKAGE, _EXTENSION = "crc32c", "crc32c._crc32c"


def _extension() -> Any:
    """The package's extension module, without the package's own imports.

    The package imports `importlib.metadata`, `email` and `argparse` for its version and its
    command, which take a twelfth of the CPU time of a broker's start. A later `import crc32c` finds
    the same extension.
    """
    if _EXTENSION in sys.modules:
        return sys.modules[_EXTENSION]
    package = find_spec(_PACKAGE)
    found = package and PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if not found or found.loader is None:
        import crc32c

        return crc32c
    sys.modules[_EXTENSION] = extension = module_from_spec(found)
    found.loader.exec_module(extension)
    return extension


crc32c: Callable[..., int] = _extension().crc32c

"""Where compiled functions are cached, and when they are outdated.

Numba caches a function beside its source and compiles it again when that file changes. It does not
notice a change of a function that was inlined from another file: results would silently be those of
the old code. So here, a function's stamp covers every file of Weir that its module imports.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

if TYPE_CHECKING:
    from types import FunctionType

OURS = "weir_"


@lru_cache(maxsize=512)
def _source(module: str) -> bytes:
    found: Any = find_spec(module)
    return bytes(found.loader.get_data(found.origin))


@lru_cache(maxsize=512)
def _digest(module: str) -> str:
    """Return a hash of a module's source."""
    return hashlib.sha256(_source(module)).hexdigest()


@lru_cache(maxsize=512)
def _imported(module: str) -> frozenset[str]:
    """Return the modules of Weir that a module's source imports anywhere."""
    named = set()
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.Import):
            named |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from package import module` and `from module import constant` look the same.
            inner = {f"{node.module}.{each.name}" for each in node.names}
            named |= {node.module} | {each for each in inner if each in sys.modules}
    return frozenset(each for each in named if each.startswith(OURS))


def find_sources(module: str) -> set[str]:
    """Return the modules of Weir that a module imports from, itself among them.

    The source is read for it: a constant that is compiled in does not know where it came from.
    """
    found, todo = {module}, [module]
    while todo:
        for origin in _imported(todo.pop()) - found:
            found.add(origin)
            todo.append(origin)
    return found


class _StampOfAll:
    """Stamps a function with all files that went into it."""

    def __init__(self, py_func: FunctionType, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[call-arg]  # the locator it is mixed into
        self._module = py_func.__module__

    def get_disambiguator(self) -> str:
        """Return a part of the file's name: another stamp is another file.

        What older code left is then never read; it could name types that are gone.
        """
        line: str = super().get_disambiguator()  # type: ignore[misc]  # the locator's
        return f"{line}-{self.get_source_stamp().hex()[:12]}"

    def get_source_stamp(self) -> bytes:
        """Return a hash of all sources."""
        digests = "".join(_digest(module) for module in sorted(find_sources(self._module)))
        return hashlib.sha256(digests.encode()).digest()


class InFolderTold(_StampOfAll, UserProvidedCacheLocator):
    """In the folder that `NUMBA_CACHE_DIR` names."""


class BesideSource(_StampOfAll, InTreeCacheLocator):
    """In `__pycache__`, where that can be written to."""


class InHome(_StampOfAll, UserWideCacheLocator):
    """In the user's folder for caches."""


LOCATORS = ",".join(
    f"{locator.__module__}.{locator.__name__}" for locator in (InFolderTold, BesideSource, InHome)
)
"""What Numba is to try, in this order."""

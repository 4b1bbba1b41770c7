"""Where compiled functions are cached, and when they are outdated.

Numba caches a function beside its source and compiles it again when that file changes. It does not
notice a change of a function that was inlined from another file: results would silently be those of
the old code. So here, a function's stamp covers every file of Weir that its module imports.

Weir brings some functions compiled, in `BUILT` (`scripts/compile_kernels.py`): a planner takes most
of a minute to compile. Numba writes to the folder that it reads, so they are copied from there to
the cache. They are found by the same stamp, and by what Numba itself asks: the versions of Python
and Numba, and the kind of processor. Where one of these differs, a function is compiled as usual.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
import sys
import uuid
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

from weir_policies.errors import CacheError

if TYPE_CHECKING:
    from types import FunctionType

OURS = "weir_"
BUILT = Path(__file__).parent / "built"
"""A folder per module, with files as Numba writes them; it may be missing."""

_PYTHON = f".py{sys.version_info.major}{sys.version_info.minor}{sys.abiflags}."
"""Part of a file's name, by which Numba tells versions of Python apart."""


@lru_cache(maxsize=512)
def _source(module: str) -> bytes:
    found: Any = find_spec(module)
    return bytes(found.loader.get_data(found.origin))


@lru_cache(maxsize=512)
def _digest(module: str) -> str:
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


@lru_cache(maxsize=512)
def find_stamp(module: str) -> bytes:
    """Return a hash of all sources of what a module compiles."""
    digests = "".join(_digest(each) for each in sorted(find_sources(module)))
    return hashlib.sha256(digests.encode()).digest()


def find_files(folder: Path, module: str, function: str = "*") -> list[Path]:
    """Return the files of what a module compiles, or of one function, in its present form.

    Data files come first: who copies in this order has no index of a file that is not there yet.
    """
    name = f"{module.rpartition('.')[2]}.{function}-*-{_shorten(find_stamp(module))}.py*"
    return sorted(folder.glob(f"{name}.nbc")) + sorted(folder.glob(f"{name}.nbi"))


def _shorten(stamp: bytes) -> str:
    return stamp.hex()[:12]


@lru_cache(maxsize=512)
def _copy_built(module: str, cache: Path) -> None:
    """Copy what this Python compiled of a module to the cache, where it is not there yet."""
    for source in find_files(BUILT / module, module):
        target = cache / source.name
        if _PYTHON in source.name and not target.exists():
            # Other processes may copy the same, or read it already.
            part = target.with_name(f"{target.name}.tmp.{uuid.uuid4().hex}")
            shutil.copyfile(source, part)
            part.replace(target)


class _StampOfAll:
    """Stamps a function with all files that went into it, and copies it where it was compiled."""

    def __init__(self, py_func: FunctionType, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[call-arg]  # the locator it is mixed into
        self._module = py_func.__module__

    def ensure_cache_path(self) -> None:
        """Make the folder, and put there what was compiled already."""
        super().ensure_cache_path()  # type: ignore[misc]  # the locator's
        _copy_built(self._module, Path(self.get_cache_path()))  # type: ignore[attr-defined]

    def get_disambiguator(self) -> str:
        """Return a part of the file's name: another stamp is another file.

        What older code left is then never read; it could name types that are gone.
        """
        line: str = super().get_disambiguator()  # type: ignore[misc]  # the locator's
        return f"{line}-{_shorten(self.get_source_stamp())}"

    def get_source_stamp(self) -> bytes:
        return find_stamp(self._module)


class InFolderTold(_StampOfAll, UserProvidedCacheLocator):
    """In the folder that `NUMBA_CACHE_DIR` names."""


class BesideSource(_StampOfAll, InTreeCacheLocator):
    """In `__pycache__`, where that can be written to."""


class InHome(_StampOfAll, UserWideCacheLocator):
    """In the user's folder for caches."""


class Nowhere(UserProvidedCacheLocator):
    """Is asked where there is no folder, and says so."""

    @classmethod
    def from_function(cls, py_func: FunctionType, py_file: str) -> Nowhere:
        """Refuse to go on.

        Raises:
            CacheError: Always.
        """
        raise CacheError(
            f"Expected a folder to be written to for the compiled functions of {py_file}, found "
            "none: set NUMBA_CACHE_DIR to one, such as that of a mounted volume"
        )


LOCATORS = ",".join(
    f"{locator.__module__}.{locator.__name__}"
    for locator in (InFolderTold, BesideSource, InHome, Nowhere)
)
"""What Numba is to try, in this order."""

"""The only way in which Weir compiles a function.

A kernel is compiled at its first call, for the types of that call, and cached on disk. A loop gets
it as a first-class function, in an argument whose declared type is a `FunctionType`: a kernel
passed as a plain argument would compile the loop again in every process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import config

from weir_policies.kernels.caching import LOCATORS


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Have imports of a module fail while the block runs, unless it is already imported."""
    hidden = module not in sys.modules
    if hidden:
        sys.modules[module] = cast(Any, None)  # as `import` documents it
    try:
        yield
    finally:
        if hidden:
            del sys.modules[module]


with _hidden("scipy.linalg.cython_blas"):
    # Otherwise the first function that is loaded imports `scipy.linalg`, 12 MiB, to see whether
    # `np.convolve` may use it. What needs linear algebra still asks for it when it is compiled.
    import numba.np.arraymath

_SETTINGS = cast(Any, config)  # its stubs know none of them
_SETTINGS.CACHE_LOCATOR_CLASSES = LOCATORS
if _SETTINGS.CPU_NAME is None:
    # Numba would compile for this very processor, and what was compiled elsewhere could not be
    # used. Policies are no slower for it: they branch and look up more than they sum.
    _SETTINGS.CPU_NAME, _SETTINGS.CPU_FEATURES = "generic", ""


Function = TypeVar("Function", bound=Callable[..., Any])

# Division is IEEE's: 1/0 is inf, as in NumPy, which the model's answers rely on. No run time for
# memory (`_nrt`): every call would count the references of all arrays of a view, which takes 40
# times as long as the arithmetic; calls are inlined because passing that many arrays costs as well.
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """Return the function, compiled by Numba, cached on disk; it must not allocate arrays."""
    return cast(Function, numba.njit(forceinline=True, **_OPTIONS)(function))


def compiled_apart(function: Function) -> Function:
    """Return the function, compiled for itself and called: for large ones that are called rarely.

    Inlined wherever they are called, they would take Numba half a minute. It says so, because a
    function that says nothing is inlined where the one that calls it is.
    """
    return cast(Function, numba.njit(forceinline=False, **_OPTIONS)(function))


def pasted(function: Function) -> Function:
    """Return a function whose lines Numba puts where it is called, so that it may return an array.

    For one-liners that cut an array out of a memory: without a run time for memory a function
    cannot hand out an array, while a slice in the midst of another function costs nothing.
    """
    return cast(Function, numba.njit(inline="always", cache=True, error_model="numpy")(function))


def compiled_as(signature: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles for exactly these types, at once; for loops.

    Args:
        signature: As Numba writes it; Numba has no static types, hence `Any`.
    """
    return cast(Callable[[Function], Function], numba.njit(signature, **_OPTIONS))

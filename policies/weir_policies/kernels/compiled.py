"""The one way in which Weir compiles a function.

A kernel is compiled when it is first called, for the types it is called with, and kept on disk. It
is handed to a loop as a first-class function, by an argument whose declared type is a
`FunctionType`: a kernel passed as a plain argument would compile the loop anew in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Division is IEEE's: 1/0 is inf, as in NumPy, which the model's answers rely on. No run time for
# memory (`_nrt`): every call would count the references of all arrays of a view, which takes 40
# times as long as the arithmetic; calls are inlined because passing that many arrays costs as well.
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """Return the function, compiled by Numba, cached on disk; it must not allocate arrays."""
    return cast(Function, numba.njit(forceinline=True, **_OPTIONS)(function))


def compiled_as(signature: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles for exactly these types, at once; for loops.

    Args:
        signature: As Numba writes it; Numba has no static types, hence `Any`.
    """
    return cast(Callable[[Function], Function], numba.njit(signature, **_OPTIONS))

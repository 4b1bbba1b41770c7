"""Paths from source to sink, for policies that decide for a whole dataflow at once.

Such a policy keeps the paths in its memory: how many there are, then each as its length and its
operators' rows.
"""

from __future__ import annotations

from weir_policies.errors import ParameterError
from weir_policies.kernels.view import View

MAX_PATHS = 10_000
"""Paths above which a dataflow is refused: forks multiply them."""


def list_paths(view: View) -> list[list[int]]:
    """Return the rows of the operators on every path from a source to a sink.

    Raises:
        ParameterError: There are too many.
    """
    onward: dict[int, list[int]] = {}
    fed = set()
    for above, below in view.edges.tolist():
        onward.setdefault(above, []).append(below)
        fed.add(below)
    unfinished = [[row] for row in range(view.counts.shape[0]) if row not in fed]
    paths: list[list[int]] = []
    while unfinished:
        path = unfinished.pop(0)
        following = onward.get(path[-1], [])
        if not following:
            paths.append(path)
        unfinished.extend([*path, row] for row in following)
        if len(paths) + len(unfinished) > MAX_PATHS:
            raise ParameterError(
                f"Expected edges with at most {MAX_PATHS:,} paths for a policy that decides path "
                "by path, got more: choose a policy that decides per operator"
            )
    return paths


def flatten_paths(paths: list[list[int]]) -> list[int]:
    """Return paths in the format of a policy's state."""
    flat = [len(paths)]
    for path in paths:
        flat += [len(path), *path]
    return flat

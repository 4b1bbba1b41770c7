"""Compiled functions get a view by its address: they see its arrays as Python does."""

from __future__ import annotations

from typing import Any

import pytest

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.view import View, empty_view


@compiled_apart
def add_apart(o: int, view: View, more: int) -> int:
    """Add to a row of the target, and return its sum."""
    total = 0
    for place in range(view.target.shape[1]):
        view.target[o, place] += more
        total += view.target[o, place]
    return total


@compiled
def add_twice(o: int, view: View) -> float:
    """Write here and in another function, and read what both wrote."""
    before = add_apart(o, view, 1)
    view.seen[o].rate = before + add_apart(o, view, 10)
    view.scratch[o] = view.seen[o].rate
    return float(view.seen[o].rate + view.scratch[o, 0] + view.joined.shape[1])


@pytest.fixture
def view() -> View:
    return empty_view(operators=2, node_types=3, max_replicas=5)


def test_what_is_written_in_one_function_is_read_in_the_other(view: View) -> None:
    returned = add_twice(1, view)

    assert view.target.tolist() == [[0, 0, 0], [11, 11, 11]]
    assert view.seen["rate"].tolist() == [0, 36]
    assert returned == 36 + 36 + 5


def test_a_view_with_an_array_of_another_kind_is_refused(view: View) -> None:
    wrong: Any = None

    with pytest.raises(TypeError):
        add_twice(0, view._replace(target=wrong))

"""Named fields of a policy's memory: the same in a kernel and in plain Python."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.levels import LearningParameters
from weir_policies.kernels.tables import Table, allocate_table, find_place, grow, read
from weir_policies.kernels.view import empty_view
from weir_policies.model.arrays import Counts, Floats


class Base(Fields):
    gamma: float
    window: int
    rates: Floats = array("window")


class Learned(Base):
    grid: Floats = array(2, 3)
    deployments: Counts = array("window", 2)
    updates: int


class Estimating(Table):
    alpha: float
    quantum: float
    levels: int
    estimates: Floats = array(2)


@numba.njit
def write(o, memory):
    own = Learned(memory[o])
    own.gamma *= 2
    own.updates += 3
    own.rates[own.window - 1] = 5.5
    own.grid[1, 2] = own.gamma
    own.deployments[1, 0] = own.updates


@numba.njit
def sum_of_base(memory, o):
    own = Base(memory[o])
    total = own.gamma
    for place in range(own.rates.size):
        total += own.rates[place]
    return total


def operators(count):
    return empty_view(operators=count, node_types=1, max_replicas=1)


def test_what_a_kernel_writes_is_read_by_name_in_python():
    memory = Learned.allocate(operators(2), gamma=0.25, window=np.array([2, 4]))

    write(1, memory)

    own = Learned(memory[1])
    assert (own.gamma, own.updates) == (0.5, 3)
    assert own.rates.tolist() == [0, 0, 0, 5.5]
    assert own.grid.tolist() == [[0, 0, 0], [0, 0, 0.5]]
    assert own.deployments.tolist() == [[0, 0], [3, 0], [0, 0], [0, 0]]


def test_a_kernel_writes_to_one_operator_alone():
    memory = Learned.allocate(operators(3), gamma=0.25, window=np.array([2, 4, 3]))
    others = memory[[0, 2]].copy()

    write(1, memory)

    assert (memory[[0, 2]] == others).all()


def test_what_python_writes_is_read_in_a_kernel_by_the_base_class_too():
    memory = Learned.allocate(operators(2), gamma=0.25, window=3)
    own = Learned(memory[1])
    own.rates[:] = 2.0
    own.grid[:] = 7.0

    assert sum_of_base(memory, 1) == 6.25
    assert (own.grid == 7.0).all()


def test_fields_do_not_overlap():
    own = Learned(Learned.allocate(operators(1), window=3)[0])

    for value, name in enumerate(Learned.fields, start=1):
        if name != "window":
            setattr(own, name, value)

    for value, name in enumerate(Learned.fields, start=1):
        if name != "window":
            assert (np.asarray(getattr(own, name)) == value).all()


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(AttributeError, match="misspelt"):
        Learned.allocate(operators(1), window=1, misspelt=3)


def test_a_table_that_is_half_full_grows_and_keeps_everything():
    parameters = LearningParameters(levels=20, max_rate=100.0)
    memory = allocate_table(Estimating, operators(2), parameters, keys=2**40, writes=4, alpha=0.5)
    own = Estimating(memory[1])
    own.estimates[:] = 3.0
    for key in range(9):
        own.values[find_place(own.keys, 1000 * key)] = key + 1

    larger = grow(Estimating, memory)

    own = Estimating(larger[1])
    assert own.keys.size == 2 * Estimating(memory[1]).keys.size
    assert [read(own.keys, own.values, 1000 * key) for key in range(9)] == list(range(1, 10))
    assert (own.levels, own.quantum) == (20, 5.0)
    assert (own.alpha, own.estimates.tolist()) == (0.5, [3.0, 3.0])
    assert (Estimating(larger[0]).keys == -1).all()


@pytest.mark.parametrize("name", ["words", "fields", "allocate"])
def test_a_field_may_not_have_a_name_that_every_memory_has(name):
    with pytest.raises(TypeError, match=name):
        type("Wrong", (Fields,), {"__annotations__": {name: float}})

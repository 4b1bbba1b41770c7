"""How a state becomes the inputs of a network, by hand for two node types, K = 3 and 3 levels."""

from itertools import product

import numpy as np
import pytest

from weir_policies.deep.encodings import Encoding, encode, make_scheme
from weir_policies.errors import ParameterError


def a_scheme(encoding, *, published=False, node_types=2):
    return make_scheme(
        encoding, node_types=node_types, max_replicas=3, levels=3, published=published
    )


def inputs_of(scheme, counts, level):
    """Return all inputs of a state, zeros included."""
    places = np.zeros(scheme.active, dtype=np.int64)
    values = np.zeros(scheme.active, dtype=np.float32)
    encode(scheme, np.array(counts, dtype=np.int64), level, 0, places, values)
    inputs = np.zeros(scheme.inputs)
    np.add.at(inputs, places, values)
    return inputs.tolist()


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (Encoding.MINIMAL, [2 / 3, 1 / 3, 0.5]),
        (Encoding.REDUCED1, [0, 1, 0, 1, 0, 0, 0.5]),
        (Encoding.REDUCED2, [0, 1, 0, 1, 0, 0, 0, 1, 0]),
        (Encoding.REDUCED2_SET, [0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0]),
    ],
)
def test_two_and_one_replicas_at_the_middle_level(encoding, expected):
    inputs = inputs_of(a_scheme(encoding), (2, 1), 1)

    assert inputs == pytest.approx(expected)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 2), [0, 0, 0, 0, 1, 0]),
        ((3, 0), [0, 0, 1, 0, 0, 0]),
    ],
)
def test_no_replica_of_a_type_sets_none_of_its_inputs(counts, expected):
    inputs = inputs_of(a_scheme(Encoding.REDUCED2), counts, 0)

    assert inputs[:6] == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param((0, 2), [0, 1, 0, 0, 1, 0], id="none of the first looks like two"),
        pytest.param((2, 0), [0, 1, 1, 0, 0, 0], id="none of the second sets the input before"),
        pytest.param((3, 0), [0, 0, 1, 0, 0, 0], id="an input that two types share is set once"),
    ],
)
def test_the_published_program_encoded_no_replica_as_another_input(counts, expected):
    inputs = inputs_of(a_scheme(Encoding.REDUCED2, published=True), counts, 0)

    assert inputs[:6] == expected


def test_every_deployment_has_an_input_of_its_own_when_it_is_encoded_as_a_whole():
    scheme = a_scheme(Encoding.LARGE, node_types=3)
    deployments = [each for each in product(range(4), repeat=3) if 1 <= sum(each) <= 3]

    inputs = [inputs_of(scheme, counts, 2) for counts in deployments]

    assert sorted(each.index(1) for each in inputs) == list(range(len(deployments)))
    assert all(each[len(deployments) :] == [0, 0, 1] for each in inputs)


@pytest.mark.parametrize("encoding", Encoding)
def test_replicas_beyond_the_most_are_not_seen(encoding):
    scheme = a_scheme(encoding)

    assert inputs_of(scheme, (2, 4), 1) == inputs_of(scheme, (2, 1), 1)


def test_an_encoding_with_too_many_inputs_is_refused():
    with pytest.raises(ParameterError, match=r"8,037 from the encoding 'large' with 6 node types"):
        make_scheme(Encoding.LARGE, node_types=6, max_replicas=10, levels=30, published=False)

"""The network: its published sizes, its gradient against torch's own, its runs apart."""

import numpy as np
import pytest
import torch

from weir_policies.deep.encodings import Codes, Encoding, make_scheme
from weir_policies.deep.network import Network, build_network, fit
from weir_policies.deep.parameters import DeepParameters


def a_network(sizes, runs):
    return build_network(sizes, [np.random.default_rng(seed) for seed in range(runs)])


def some_codes(*, runs, states, inputs, seed=3):
    """Return codes of three inputs each, the last of which may be shared with another."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, inputs, (runs, states, 3)) + inputs * np.arange(runs)[:, None, None]
    return Codes(places=places, values=rng.random((runs, states, 3)).astype(np.float32))


def as_dense(codes, inputs):
    """Return all inputs, zeros included, `(r, b, inputs)`."""
    runs, states, _ = codes.places.shape
    dense = torch.zeros(runs, states, inputs)
    local = torch.from_numpy(codes.places) - inputs * torch.arange(runs)[:, None, None]
    return dense.scatter_add_(2, local, torch.from_numpy(codes.values))


def only_run(network, codes, run):
    """Return one run's network and codes as a batch of one."""
    inputs = network.sizes[0]
    alone = Network(
        tuple(weight[run : run + 1].clone() for weight in network.weights),
        tuple(bias[run : run + 1].clone() for bias in network.biases),
    )
    places = codes.places[run : run + 1] - run * inputs
    return alone, Codes(places=places, values=codes.values[run : run + 1])


@pytest.mark.parametrize("sizes", [(7, 5, 1), (9, 8, 6, 4), (6, 5, 4, 3, 7)])
def test_a_step_is_the_one_that_recorded_gradients_give(sizes):
    network = a_network(sizes, runs=2)
    codes = some_codes(runs=2, states=6, inputs=sizes[0])
    rng = np.random.default_rng(5)
    outputs = rng.integers(0, sizes[-1], (2, 6))
    aims = rng.normal(size=(2, 6))
    weights = [weight.clone().requires_grad_() for weight in network.weights]
    biases = [bias.clone().requires_grad_() for bias in network.biases]
    layer = as_dense(codes, sizes[0])
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        layer = (layer.relu() if place else layer) @ weight + bias
    chosen = layer.gather(2, torch.from_numpy(outputs)[:, :, None])[:, :, 0]
    squares = (chosen - torch.from_numpy(aims)) ** 2
    (squares.sum() / (6 * sizes[-1])).backward()

    fit(network, codes, outputs, aims, learning_rate=0.1)

    for was, now in zip((*weights, *biases), (*network.weights, *network.biases), strict=True):
        assert was.grad is not None
        torch.testing.assert_close(now, was.detach() - 0.1 * was.grad)


def test_many_runs_learn_what_each_learns_alone():
    network = a_network((12, 9, 7, 5), runs=4)
    batches = [some_codes(runs=4, states=8, inputs=12, seed=seed) for seed in range(20)]
    alone = [only_run(network, batches[0], run)[0] for run in range(4)]
    rng = np.random.default_rng(6)

    for codes in batches:
        outputs, aims = rng.integers(0, 5, (4, 8)), rng.normal(size=(4, 8))
        for run, single in enumerate(alone):
            _, own = only_run(network, codes, run)
            here = slice(run, run + 1)
            fit(single, own, outputs[here], aims[here], learning_rate=0.1)
        fit(network, codes, outputs, aims, learning_rate=0.1)

    for run, single in enumerate(alone):
        for together, apart in zip(network.weights, single.weights, strict=True):
            torch.testing.assert_close(together[run], apart[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("node_types", "max_replicas", "hidden", "dqn", "dqn_pds"),
    [
        (3, 10, (45, 34, 26), 5_408, 5_246),
        (6, 10, (68, 51, 38), 12_190, 11_722),
        (10, 10, (98, 74, 56), 25_561, 24_421),
        (3, 20, (68, 51, 38), 11_956, 11_722),
        (6, 20, (113, 85, 64), 33_102, 32_322),
        (10, 20, (173, 130, 98), 77_500, 75_520),
    ],
)
def test_networks_have_the_published_sizes(node_types, max_replicas, hidden, dqn, dqn_pds):
    scheme = make_scheme(
        Encoding.REDUCED2,
        node_types=node_types,
        max_replicas=max_replicas,
        levels=30,
        published=False,
    )

    for outputs, parameters in ((2 * node_types + 1, dqn), (1, dqn_pds)):
        sizes = DeepParameters().size_layers(scheme.inputs, outputs)
        network = a_network(sizes, runs=1)
        assert sizes[1:-1] == hidden
        assert sum(each.numel() for each in (*network.weights, *network.biases)) == parameters


def test_first_weights_have_the_variance_that_their_layer_asks_for():
    network = a_network((200, 100, 50), runs=1)

    assert [float(weight.std()) for weight in network.weights] == pytest.approx(
        [np.sqrt(2 / 300), np.sqrt(2 / 150)], rel=0.05
    )
    assert all(float(bias.abs().max()) == 0 for bias in network.biases)

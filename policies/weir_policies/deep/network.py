"""Feed-forward networks for `r` runs at once, trained by plain gradient descent.

Hidden layers are rectified, the last is linear; weights are 32-bit. Each operation works on all
runs in one call, because for networks this small a call costs more than its arithmetic. The inputs
are mostly 0 (see `encodings`): the first layer adds up the rows of its weights where they are not.
The gradient is written out below instead of being recorded: a test compares it with torch's own.

Loss, as Deeplearning4j 0.9 has it: squared errors, divided by the number of outputs, averaged over
the batch. First weights: normal with variance 2 / (inputs + outputs) of the layer (Glorot and
Bengio, AISTATS 2010), biases 0.

This is the only module of the policies that imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional

from weir_policies.deep.encodings import Codes, Singles
from weir_policies.model.arrays import Counts, Floats


@dataclass(frozen=True, slots=True)
class Network:
    """Weights of `r` networks of one shape; `fit` changes them in place."""

    weights: tuple[torch.Tensor, ...]
    """Per layer, `(r, inputs, outputs)`."""
    biases: tuple[torch.Tensor, ...]
    """Per layer, `(r, 1, outputs)`."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Neurons of each layer, inputs and outputs included."""
        return (*(weight.shape[1] for weight in self.weights), self.weights[-1].shape[2])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Make torch use one thread: on matrices this small, several wait longer for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def build_network(sizes: Sequence[int], rngs: Sequence[np.random.Generator]) -> Network:
    """Return networks with first weights, one run's drawn from each generator.

    Args:
        sizes: Neurons of each layer, inputs and outputs included.
        rngs: One per run.
    """
    shapes = list(pairwise(sizes))
    network = from_arrays(
        [np.empty((len(rngs), *shape), dtype=np.float32) for shape in shapes],
        [np.empty((len(rngs), 1, shape[1]), dtype=np.float32) for shape in shapes],
    )
    for run, rng in enumerate(rngs):
        begin_run(network, run, rng)
    return network


def begin_run(network: Network, run: int, rng: np.random.Generator) -> None:
    """Give one run's network first weights, drawn from the generator."""
    for weights, biases in zip(*to_arrays(network), strict=True):
        shape = weights.shape[1:]
        weights[run] = rng.normal(0.0, np.sqrt(2 / sum(shape)), size=shape)
        biases[run] = 0.0


def from_arrays(weights: Sequence[Singles], biases: Sequence[Singles]) -> Network:
    """Return networks that own these arrays."""
    return Network(
        weights=tuple(torch.from_numpy(weight) for weight in weights),
        biases=tuple(torch.from_numpy(bias) for bias in biases),
    )


def to_arrays(network: Network) -> tuple[tuple[Singles, ...], tuple[Singles, ...]]:
    """Return weights and biases, sharing their memory with the network."""
    return (
        tuple(weight.numpy() for weight in network.weights),
        tuple(bias.numpy() for bias in network.biases),
    )


@_one_thread()
@torch.inference_mode()
def evaluate(network: Network, codes: Codes) -> Singles:
    """Return the outputs for each state, `(r, b, outputs)`."""
    return _run(network, codes)[-1].numpy()


@_one_thread()
@torch.inference_mode()
def fit(
    network: Network, codes: Codes, outputs: Counts, aims: Floats, *, learning_rate: float
) -> None:
    """Make one step of gradient descent on `b` states of each run.

    Args:
        network: Changed in place.
        codes: The states.
        outputs: Which output is to change, `(r, b)`; the others count as right.
        aims: What that output should be, `(r, b)`.
        learning_rate: Step size.
    """
    layers = _run(network, codes)
    answers = layers[-1]
    chosen = torch.from_numpy(outputs).unsqueeze(2)
    wanted = torch.from_numpy(aims.astype(np.float32)).unsqueeze(2)
    scale = 2 / (answers.shape[2] * answers.shape[1])
    error = torch.zeros_like(answers)
    error.scatter_(2, chosen, (answers.gather(2, chosen) - wanted).mul_(scale))
    for place in range(len(layers) - 1, 0, -1):
        weight, below = network.weights[place], layers[place - 1]
        # A rectified neuron hands an error on where it is above 0; before its weights change.
        handed_on = torch.bmm(error, weight.transpose(1, 2)).mul_(below > 0)
        weight.baddbmm_(below.transpose(1, 2), error, alpha=-learning_rate)
        network.biases[place].sub_(error.sum(1, keepdim=True), alpha=learning_rate)
        error = handed_on
    first, values = network.weights[0], torch.from_numpy(codes.values)
    shares = (error.unsqueeze(2) * values.unsqueeze(3)).view(-1, first.shape[2])
    places = torch.from_numpy(codes.places).view(-1)
    first.view(-1, first.shape[2]).index_add_(0, places, shares, alpha=-learning_rate)
    network.biases[0].sub_(error.sum(1, keepdim=True), alpha=learning_rate)


def _run(network: Network, codes: Codes) -> list[torch.Tensor]:
    """Return what each layer puts out, `(r, b, neurons)`; the last are the answers."""
    runs, states, active = codes.places.shape
    first = network.weights[0]
    summed = functional.embedding_bag(
        torch.from_numpy(codes.places).view(-1, active),
        first.view(-1, first.shape[2]),
        mode="sum",
        per_sample_weights=torch.from_numpy(codes.values).view(-1, active),
    )
    layers = [summed.view(runs, states, -1).add_(network.biases[0])]
    for weight, bias in zip(network.weights[1:], network.biases[1:], strict=True):
        layers.append(torch.baddbmm(bias, layers[-1].relu_(), weight))
    return layers

"""The state of a deep policy for `r` runs, the rows of one view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.deep.encodings import Scheme, make_scheme
from weir_policies.deep.network import Network, begin_run, build_network
from weir_policies.deep.parameters import DeepParameters
from weir_policies.deep.replay import Batch, Replay, draw_batch, empty_replay, push
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats


@dataclass(slots=True)
class DeepMemory:
    """Learned state, and what follows from the parameters and the operators' shape."""

    scheme: Scheme
    quanta: Floats
    """Width of a rate level, records/s, `(r,)`."""
    network: Network
    replay: Replay
    rngs: tuple[np.random.Generator, ...]
    """One per run."""
    draws: Floats
    """Numbers for the next decision, drawn evenly from [0, 1), `(r, 2)`: to decide draws none."""
    learned: int
    """Intervals learned from."""


def prepare_memory(
    parameters: DeepParameters, view: View, rngs: Sequence[np.random.Generator], *, outputs: int
) -> DeepMemory:
    """Return the memory of runs that begin.

    Raises:
        ParameterError: The encoding or the rate levels do not suit the operators.
    """
    runs, node_types = view.counts.shape
    max_replicas = int(view.model[0].max_replicas)
    scheme = scheme_for(parameters, node_types=node_types, max_replicas=max_replicas)
    sizes = parameters.size_layers(scheme.inputs, outputs)
    return DeepMemory(
        scheme=scheme,
        quanta=parameters.find_quanta(view),
        network=build_network(sizes, rngs),
        replay=empty_replay(runs=runs, node_types=node_types, capacity=int(parameters.memory)),
        rngs=tuple(rngs),
        draws=np.zeros((runs, 2)),
        learned=0,
    )


def scheme_for(parameters: DeepParameters, *, node_types: int, max_replicas: int) -> Scheme:
    """Return the encoding that the parameters ask for, for operators of a shape.

    Raises:
        ParameterError: It would have too many inputs.
    """
    return make_scheme(
        parameters.encoding,
        node_types=node_types,
        max_replicas=max_replicas,
        levels=int(parameters.levels),
        published=bool(parameters.published),
    )


def remember(memory: DeepMemory, view: View, costs: Floats) -> bool:
    """Put the interval that just ended into the buffer; return whether it is there now.

    One that no single action explains, as when another deployment was granted than was proposed, is
    left out.

    Args:
        memory: Whose buffer.
        view: The interval.
        costs: What is learned of its cost, weighted, `(r,)`.
    """
    place = memory.learned % memory.replay.costs.shape[1]
    levels = memory.scheme.levels
    explained = push(view, memory.replay, place, memory.quanta, levels, costs)
    memory.learned += explained
    return explained


def draw_due(memory: DeepMemory, parameters: DeepParameters) -> Batch | None:
    """Return intervals to learn from, or `None` while no step is due or too few are held."""
    held = min(memory.learned, int(parameters.memory))
    if memory.learned % parameters.fit_every != 0 or held < parameters.batch:
        return None
    return draw_batch(memory.replay, held, int(parameters.batch), memory.rngs)


def begin_diverged_anew(memory: DeepMemory, aims: Floats) -> bool:
    """Give first weights to each run whose network has diverged; return whether there was one.

    Gradient descent with a fixed step may overshoot ever further, until weights are no numbers and
    the policy would stay where it is for ever. What the buffer holds is kept.
    """
    diverged = np.flatnonzero(~np.isfinite(aims).all(axis=1))
    for run in diverged:
        begin_run(memory.network, int(run), memory.rngs[run])
    return diverged.size > 0


def draw_choices(memory: DeepMemory) -> None:
    """Draw the numbers that the next decision uses."""
    for run, rng in enumerate(memory.rngs):
        rng.random(out=memory.draws[run])

"""Saves a deep policy's state of one operator as plain JSON values, and loads it bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weir_policies.deep.memory import DeepMemory, scheme_for
from weir_policies.deep.network import from_arrays, to_arrays
from weir_policies.deep.parameters import DeepParameters
from weir_policies.deep.replay import empty_replay
from weir_policies.errors import StateError
from weir_policies.kernels.policy import pack_array, unpack_array


def pack_memory(memory: DeepMemory) -> dict[str, Any]:
    """Return everything learned; of the buffer only what is in use. Not the generator."""
    held = min(memory.learned, memory.replay.costs.shape[1])
    weights, biases = to_arrays(memory.network)
    return {
        "learned": memory.learned,
        "quanta": pack_array(memory.quanta),
        "draws": pack_array(memory.draws),
        "weights": [pack_array(layer) for layer in weights],
        "biases": [pack_array(layer) for layer in biases],
        "items": pack_array(memory.replay.items[:, :held]),
        "costs": pack_array(memory.replay.costs[:, :held]),
    }


def unpack_memory(
    packed: Mapping[str, Any],
    parameters: DeepParameters,
    rng: np.random.Generator,
    *,
    node_types: int,
    max_replicas: int,
) -> DeepMemory:
    """Return the memory that `pack_memory` packed.

    Raises:
        StateError: It was packed with other parameters.
    """
    scheme = scheme_for(parameters, node_types=node_types, max_replicas=max_replicas)
    network = from_arrays(
        [unpack_array(layer) for layer in packed["weights"]],
        [unpack_array(layer) for layer in packed["biases"]],
    )
    expected = parameters.size_layers(scheme.inputs, network.sizes[-1])
    if network.sizes != expected:
        raise StateError(
            f"Expected a network of {expected} neurons for these parameters, got {network.sizes}"
        )
    replay = empty_replay(runs=1, node_types=node_types, capacity=int(parameters.memory))
    items, costs = unpack_array(packed["items"]), unpack_array(packed["costs"])
    learned = int(packed["learned"])
    held = min(learned, int(parameters.memory))
    if items.shape[1] != held:
        raise StateError(
            f"Expected {held} intervals of {learned} for memory = {parameters.memory}, "
            f"got {items.shape[1]}"
        )
    replay.items[:, :held], replay.costs[:, :held] = items, costs
    return DeepMemory(
        scheme=scheme,
        quanta=unpack_array(packed["quanta"]),
        network=network,
        replay=replay,
        rngs=(rng,),
        draws=unpack_array(packed["draws"]),
        learned=learned,
    )

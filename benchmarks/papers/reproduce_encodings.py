"""Figures 26 and 27 of the 2023 paper: encodings of the state, and what deep Q-learning costs.

Figure 26 shows one state in each of the four encodings, Figure 27 the costs with one to three
hidden layers. Both were published as pictures without numbers, so nothing is promised; the text
says that all combinations cost about the same, three layers slightly the least, that `large` is the
best, and `reduced2` the most consistent of the others. `published: 1` also changes the one-hot
encodings. The `large` encoding is run with three node types only, as there. Parts are kept in
`build/benchmarks/reproduce-encodings/`.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, appendix B.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from rich.console import Console

from benchmarks.figures import Figure
from benchmarks.papers.deep_parts import Part, run_parts
from benchmarks.papers.departures import Departure
from benchmarks.papers.reproduce_deep import ENCODING
from benchmarks.papers.taas2023 import TYPES, Setting, describe_for
from benchmarks.pictures import Axes, draw_bars, draw_cells
from benchmarks.rows import RESULTS
from weir_policies.deep.encodings import Encoding, encode, make_scheme
from weir_policies.deep.parameters import DeepParameters

ABOUT = "figures 26, 27 (TAAS 2023): encodings and hidden layers of deep Q-learning, five seeds"
DURATION = "1 h"

SEEDS = (1, 2, 3, 4, 5)
LAYERS = (1, 2, 3)
ENCODINGS = (Encoding.MINIMAL, Encoding.REDUCED1, Encoding.REDUCED2, Encoding.LARGE)


def list_departures() -> list[Departure]:
    """Return where this is not the paper's experiment, for the page."""
    return [
        Departure(
            what="goal",
            paper="a picture without numbers",
            here="none: costs are listed and drawn",
            why="nothing to compare with",
        ),
        Departure(what="seeds", paper="10", here=str(len(SEEDS)), why="time"),
        Departure(
            what="policy",
            paper="DQL",
            here="`dqn` with `published: 1` on infrastructure A",
            why="as in the tables",
        ),
        ENCODING,
        Departure(
            what="state shown in Figure 26",
            paper="one of 2 node types, at most 3 replicas and 3 rate levels",
            here="2 replicas of the first type and 1 of the second at the middle level, encoded "
            "without `published: 1`",
            why="which one it is, is not in our text",
        ),
    ]


def run() -> list[Figure]:
    """Run what is missing; tell costs, and the weights that three layers need."""
    console = Console()
    parts = list_parts()
    costs = {}
    for outcome in run_parts(parts, RESULTS / "reproduce-encodings"):
        costs[outcome.part.name] = outcome.average_cost
        console.print(f"{outcome.part.name}: {costs[outcome.part.name]:.4f}", highlight=False)
    figures = [
        *(
            Figure(figure=f"{part.name}: mean cost", value=costs[part.name], unit="")
            for part in parts
        ),
        *(
            Figure(
                figure=f"A{types}-{encoding}-3-layers: weights",
                value=count_weights(types, encoding) * 4 / 1024,
                unit="KiB",
            )
            for types, encoding in combinations()
        ),
    ]
    draw_example()
    draw(figures)
    return figures


def draw_example() -> None:
    """Draw Figure 26: a state as inputs of a network, in each encoding."""
    draw_cells(
        "figure-26",
        {encoding.value: _inputs_of(encoding) for encoding in ENCODINGS},
        "Figure 26: 2 and 1 replicas of two node types, at most 3, at the middle of 3 rate levels",
    )


def _inputs_of(encoding: Encoding) -> list[float]:
    scheme = make_scheme(encoding, node_types=2, max_replicas=3, levels=3, published=False)
    places = np.zeros(scheme.active, dtype=np.int64)
    values = np.zeros(scheme.active, dtype=np.float32)
    encode(scheme, np.array([2, 1]), 1, 0, places, values)
    inputs = np.zeros(scheme.inputs)
    np.add.at(inputs, places, values)
    return list(inputs.tolist())


def draw(figures: Sequence[Figure]) -> None:
    """Draw Figure 27: costs by encoding and layers, and the memory of three layers."""
    values = {each.figure: each.value or 0.0 for each in figures}
    draw_bars(
        "figure-27a",
        [f"{types} types\n{layers} layers" for types in TYPES for layers in LAYERS],
        {
            encoding.value: [
                values.get(f"A{types}-{encoding}-{layers}-layers: mean cost", 0.0)
                for types in TYPES
                for layers in LAYERS
            ]
            for encoding in ENCODINGS
        },
        Axes(title="Figure 27a: average cost of DQL", across="", up="average cost"),
    )
    draw_bars(
        "figure-27b",
        [f"{types} types" for types in TYPES],
        {
            encoding.value: [
                values.get(f"A{types}-{encoding}-3-layers: weights", 0.0) for types in TYPES
            ]
            for encoding in ENCODINGS
        },
        Axes(title="Figure 27b: weights of three layers", across="", up="KiB", log_up=True),
    )


def combinations() -> list[tuple[int, Encoding]]:
    """Return the numbers of node types with the encodings that they are run with."""
    return [
        (types, encoding)
        for types in TYPES
        for encoding in ENCODINGS
        if encoding is not Encoding.LARGE or types == min(TYPES)
    ]


def list_parts() -> list[Part]:
    """Return what to run, infrastructure A with K = 10."""
    return [
        Part(
            name=f"A{types}-{encoding}-{layers}-layers",
            policy="dqn",
            parameters={"published": 1, "encoding": encoding.value, "hidden_layers": layers},
            experiment=describe_for("dqn", Setting("taxi", 10, "A", types)),
            seeds=SEEDS,
        )
        for types, encoding in combinations()
        for layers in LAYERS
    ]


def count_weights(types: int, encoding: Encoding, *, outputs: int | None = None) -> int:
    """Return the weights and biases of a network with three hidden layers.

    Args:
        types: Node types.
        encoding: Of the state.
        outputs: Neurons of the last layer; `None` is one per action.
    """
    scheme = make_scheme(encoding, node_types=types, max_replicas=10, levels=30, published=True)
    sizes = DeepParameters().size_layers(scheme.inputs, outputs or 2 * types + 1)
    return sum((below + 1) * above for below, above in pairwise(sizes))

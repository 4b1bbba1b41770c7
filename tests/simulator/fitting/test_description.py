import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.fitting.known_job import TYPES, a_model, a_structure
from weir_policies.model.node_types import NodeType
from weir_policies.model.objective import Statistic
from weir_policies.policy import CostWeights
from weir_simulator.errors import FitError
from weir_simulator.experiment import Objective, PathBound, PolicyChoice
from weir_simulator.fitting.calibrated import Calibration
from weir_simulator.fitting.description import common_rates, contract, describe_experiment
from weir_simulator.fitting.service import Noise


def a_calibration(structure, **fields):
    """Return what a fit might say of a structure whose edges carry two records per record."""
    calibration = Calibration(
        structure=structure,
        models={
            name: replace(
                model, service_mean=0.02, service_scv=0.5, arrival_scv=1.2, network_time=0.001
            )
            for name, model in structure.models.items()
            if name not in structure.fixed
        },
        dataflow=replace(
            structure.dataflow,
            edges=tuple(replace(each, selectivity=2.0) for each in structure.dataflow.edges),
        ),
        speedups={"small/1": 1.0, "large/1": 1.6},
        unmodelled_latency=0.01,
        downtime=0.9,
        provisioning=30.0,
        services={},
        noise=Noise(scatter=0.02, correlation=0.0),
        passage_noises={},
    )
    return replace(calibration, **fields)


OBJECTIVE = Objective(response_time=0.2)


def describe(calibration, objective=OBJECTIVE):
    return describe_experiment(
        calibration,
        objective=objective,
        trace=Path("rates.txt"),
        rates=np.full(10, 100.0),
        slot=60.0,
        weights=CostWeights(),
        policy=PolicyChoice(name="queueing"),
    )


def test_operators_that_are_never_scaled_leave_their_time_and_join_their_edges():
    names = ("source", "match", "relay", "sum", "sink")
    structure = a_structure(
        *(a_model(name) for name in names),
        edges=list(pairwise(names)),
        fixed=frozenset({"source", "relay", "sink"}),
    )

    experiment = describe(a_calibration(structure))

    assert [each.name for each in experiment.operators] == ["match", "sum"]
    [edge] = experiment.edges
    assert (edge.source, edge.target, edge.selectivity) == ("match", "sum", 4.0)
    # What is spent at none of the scaled operators counts once on every path.
    assert [each.network_time for each in experiment.operators] == pytest.approx([0.011, 0.001])


def test_the_bound_of_a_sink_that_is_never_scaled_holds_at_the_last_scaled_operators_before_it():
    structure = a_structure(
        *(a_model(name) for name in ("match", "sum", "alerts", "archive")),
        edges=[("match", "sum"), ("match", "alerts"), ("sum", "archive")],
        fixed=frozenset({"alerts", "archive"}),
    )
    objective = Objective(
        response_time=0.5,
        statistic=Statistic.P99,
        paths=(
            PathBound(sink="alerts", response_time=0.1, statistic=Statistic.P95),
            PathBound(sink="archive", response_time=0.3),
        ),
    )

    described = describe(a_calibration(structure), objective).objective

    assert (described.response_time, described.statistic) == (0.5, Statistic.P99)
    assert [(path.sink, path.response_time, path.statistic) for path in described.paths] == [
        ("match", 0.1, Statistic.P95),
        ("sum", 0.3, Statistic.MEAN),
    ]


def test_what_was_fitted_is_in_the_experiment():
    experiment = describe(a_calibration(a_structure(a_model())))

    [operator] = experiment.operators
    assert operator.service_rate == pytest.approx(50)
    assert (operator.scv, operator.arrival_scv) == (0.5, 1.2)
    assert {each.name: each.speedup for each in experiment.node_types} == {
        "small/1": 1.0,
        "large/1": 1.6,
    }
    assert experiment.world.downtime == 0.9
    assert experiment.world.provisioning_delay == 30.0
    assert experiment.slot == 60.0
    # 100 records/s are counted in a minute to one part in the root of 6,000.
    assert experiment.world.noise == pytest.approx(1 / math.sqrt(6000))


def test_sizes_of_one_pool_can_be_resized_and_single_ones_cannot():
    sizes = (TYPES[0], replace(TYPES[0], name="small/2"))
    several = a_structure(a_model(node_types=sizes))
    speedups = {"small/1": 1.0, "small/2": 2.0}

    assert describe(a_calibration(several, speedups=speedups)).world.resizes
    assert not describe(a_calibration(a_structure(a_model()))).world.resizes


def test_a_diamond_keeps_its_two_paths():
    structure = a_structure(
        *(a_model(name) for name in "abcd"),
        edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")],
        fixed=frozenset("bc"),
    )

    [edge] = contract(a_calibration(structure).dataflow, structure.fixed).edges

    assert (edge.source, edge.target, edge.selectivity) == ("a", "d", 8.0)


def test_records_from_a_source_beside_those_of_a_scaled_operator_are_refused():
    structure = a_structure(
        *(a_model(name) for name in "abc"), edges=[("a", "c"), ("b", "c")], fixed=frozenset("b")
    )

    with pytest.raises(
        FitError, match="Expected 'c' to get records either from scaled operators or"
    ):
        contract(structure.dataflow, structure.fixed)


def test_different_rates_at_the_first_operators_are_refused():
    with pytest.raises(FitError, match="got a: 10/s, b: 20/s"):
        common_rates({"a": np.full(5, 10.0), "b": np.full(5, 20.0)})


def test_a_job_of_fixed_operators_has_nothing_to_tune():
    with pytest.raises(FitError, match="scale one"):
        contract(a_structure(a_model()).dataflow, {"op"})


def test_an_operator_stays_in_its_pools_where_others_have_more():
    structure = a_structure(a_model("a", node_types=TYPES[1:]), a_model("b"), edges=[("a", "b")])

    experiment = describe(a_calibration(structure))

    assert [each.pools for each in experiment.operators] == [("large",), None]
    assert [each.name for each in experiment.node_types] == ["small/1", "large/1"]


def test_operators_without_a_pool_in_common_stay_apart():
    structure = a_structure(
        a_model("a", node_types=TYPES[1:]), a_model("b", node_types=TYPES[:1]), edges=[("a", "b")]
    )

    experiment = describe(a_calibration(structure))

    assert [each.pools for each in experiment.operators] == [("large",), ("small",)]
    assert [each.name for each in experiment.node_types] == ["large/1", "small/1"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edges": [("op", "nobody")]}, "nobody"),
        ({"given": frozenset({"huge/9"})}, "Expected given out of"),
        ({"fixed": frozenset({"nobody"})}, "Expected fixed out of"),
    ],
)
def test_a_structure_that_names_nothing_is_refused(fields, message):
    with pytest.raises(FitError, match=message):
        a_structure(a_model(), **fields)


def test_operators_that_differ_in_a_node_type_are_refused():
    other = NodeType(name="cheap/1", pool="cheap", speedup=1.0, price=1.0)
    dearer = replace(other, price=2.0)

    with pytest.raises(FitError, match="another at operator 'b'"):
        a_structure(
            a_model("a", node_types=(other,)),
            a_model("b", node_types=(dearer,)),
            given=frozenset(),
        )

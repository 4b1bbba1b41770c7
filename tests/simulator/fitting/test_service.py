import math
from dataclasses import replace

import numpy as np
import pytest

from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.model.node_types import NodeType
from weir_policies.policy import OperatorModel
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.fitting.service import fit_services, pool_replicas
from weir_simulator.fitting.structure import Structure

TYPES = tuple(
    NodeType(name=name, pool=name.partition("/")[0], speedup=cores, price=cores)
    for name, cores in (("small/1", 1.0), ("small/2", 2.0), ("large/1", 1.0), ("large/2", 2.0))
)


def a_structure(*names, given=("small/1",)):
    return Structure(
        operators=tuple(
            OperatorModel(
                name=name,
                node_types=TYPES,
                max_replicas=9,
                service_mean=math.nan,
                service_scv=math.nan,
            )
            for name in names
        ),
        given=frozenset(given),
    )


def draw(means, speeds, ran, *, rng, intervals=20, records=3000, scv=0.5, noise=0.03):
    """Return intervals in which operators ran on the node types that `ran` says."""
    listed = []
    for place in range(intervals):
        operators = {}
        for name, types in ran.items():
            services = []
            for node_type in types:
                mean = means[name] / speeds[node_type] * rng.lognormal(-(noise**2) / 2, noise)
                services.append(
                    ServiceMeasurement(
                        node_type=node_type,
                        records=records,
                        mean=float(rng.gamma(records / scv, mean * scv / records)),
                        variance=scv * mean**2,
                    )
                )
            operators[name] = OperatorSample(
                deployment=dict.fromkeys(types, 1), arrived=50, taken=50, services=tuple(services)
            )
        listed.append(IntervalSample(time=60.0 * (place + 1), seconds=60.0, operators=operators))
    return listed


def test_speeds_are_pooled_over_operators_that_share_no_pair_of_types():
    speeds = {"small/1": 1.0, "large/1": 1.6, "large/2": 3.0}
    ran = {"a": ["small/1", "large/1"], "b": ["large/1", "large/2"]}
    intervals = draw({"a": 0.02, "b": 0.01}, speeds, ran, rng=np.random.default_rng(1))

    found = fit_services(intervals, a_structure("a", "b"))

    assert found.speedups["large/2"] == pytest.approx(3.0, rel=0.05)
    assert found.means["b"] == pytest.approx(0.01, rel=0.03)


def test_a_size_that_never_ran_follows_its_pool():
    ran = {"a": ["small/1", "large/1"]}
    speeds = {"small/1": 1.0, "large/1": 1.6}
    intervals = draw({"a": 0.02}, speeds, ran, rng=np.random.default_rng(1))

    found = fit_services(intervals, a_structure("a"))

    assert found.speedups["large/2"] == pytest.approx(3.2, rel=0.05)
    assert found.speedups["small/2"] == 2.0


def test_without_a_given_speed_all_are_relative_to_the_type_that_served_most():
    ran = {"a": ["large/1", "small/1"]}
    intervals = draw(
        {"a": 0.02}, {"small/1": 1.0, "large/1": 1.6}, ran, rng=np.random.default_rng(1)
    )

    found = fit_services(intervals, a_structure("a", given=()))

    speeds = found.speedups
    assert speeds["large/1"] / speeds["small/1"] == pytest.approx(1.6, rel=0.03)
    assert 1.0 in (speeds["large/1"], speeds["small/1"])


def test_the_noise_between_intervals_is_told_from_that_of_counting():
    ran = {"a": ["small/1"]}
    rng = np.random.default_rng(3)
    noisy = draw({"a": 0.02}, {"small/1": 1.0}, ran, rng=rng, intervals=300, noise=0.06)
    counted = draw(
        {"a": 0.02}, {"small/1": 1.0}, ran, rng=rng, intervals=300, noise=0.0, records=200
    )

    assert fit_services(noisy, a_structure("a")).noise.scatter == pytest.approx(0.06, rel=0.15)
    assert fit_services(counted, a_structure("a")).noise.scatter < 0.02


def test_a_pause_in_one_interval_is_no_variability_of_the_work():
    ran = {"a": ["small/1"]}
    intervals = draw({"a": 0.02}, {"small/1": 1.0}, ran, rng=np.random.default_rng(4))
    sample = intervals[3].operators["a"]
    paused = replace(sample.services[0], variance=100 * sample.services[0].variance)
    intervals[3] = replace(intervals[3], operators={"a": replace(sample, services=(paused,))})

    found = fit_services(intervals, a_structure("a")).scvs["a"]

    assert found == pytest.approx(0.5, rel=0.1)


def test_replicas_of_one_type_are_pooled_by_records():
    parts = [
        ServiceMeasurement(node_type="t", records=100, mean=0.01, variance=1e-4),
        ServiceMeasurement(node_type="t", records=300, mean=0.03, variance=3e-4),
    ]

    [pooled] = pool_replicas(parts)

    assert pooled.records == 400
    assert pooled.mean == pytest.approx(0.025)
    assert pooled.variance == pytest.approx(2.5e-4)

"""The pure parts of the benchmark soak: what counts as flat."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from benchmarks.flink.soak import (
    MIB,
    QUANTITIES,
    Sample,
    describe_ends,
    figures_of,
    growth,
    look,
    manifest,
    thirds,
)
from benchmarks.flink.soak_controller import ToAndFro
from weir_operator.streamapp.loading import parse_manifest
from weir_policies.model.node_types import Deployment
from weir_policies.testing import an_observation


def a_sample(**changes: Any) -> Sample:
    before: dict[str, Any] = {
        "time": 0.0,
        "memory": 200 * MIB,
        "descriptors": 40,
        "threads": 9,
        "records": 0,
    }
    return Sample(**(before | changes))


def growths(samples):
    found = {each.figure: each for each in figures_of(samples, QUANTITIES)}
    return {each.name: found[f"{each.name}: last third, growth"] for each in QUANTITIES}


def test_what_warms_up_and_then_stays_is_flat():
    warm = [a_sample(memory=(100 + number) * MIB) for number in range(100)]
    flat = [a_sample() for _ in range(200)]

    assert all(each.holds for each in growths([*warm, *flat]).values())


@pytest.mark.parametrize(
    ("field", "name", "step"),
    [
        ("memory", "memory", MIB // 10),
        ("descriptors", "open file descriptors", 1),
        ("threads", "threads", 1),
        ("records", "decision records", MIB // 10),
    ],
)
def test_what_grows_with_every_rescale_is_not_flat_and_all_else_is(field, name, step):
    found = growths([a_sample(**{field: number * step}) for number in range(90)])

    assert [name for name, each in found.items() if not each.holds] == [name]


def test_what_goes_up_and_down_is_flat():
    swing = [a_sample(descriptors=40 + number % 2, threads=5 + number % 3) for number in range(90)]

    assert all(each.holds for each in growths(swing).values())


def test_thirds_leave_the_middle_out():
    samples = [a_sample(descriptors=number) for number in range(10)]

    first, last = thirds(samples)

    assert (list(first), list(last)) == (samples[:3], samples[7:])


def test_one_value_has_no_slope():
    assert growth([1.0]) is None
    assert growth([1.0, 3.0, 5.0]) == pytest.approx(2.0)


def test_a_run_too_short_to_judge_does_not_pass():
    assert growths([a_sample()] * 3)["memory"].holds is False


def test_rescales_that_did_not_come_about_miss_the_goal():
    [rescales, otherwise] = describe_ends({"done": 9, "rolledBack": 1}, asked=10)

    assert (rescales.value, rescales.holds) == (9, False)
    assert (otherwise.value, otherwise.holds) == (1, False)
    assert all(each.holds for each in describe_ends({"done": 10}, asked=10))


def test_the_manifest_is_one_that_weir_takes():
    assert parse_manifest(manifest()).metadata.name == "soak"


def test_the_policy_never_stays():
    one = an_observation(deployment=Deployment((1, 0, 0)))
    two = an_observation(deployment=Deployment((2, 0, 0)))

    assert ToAndFro().decide(one).target == two.deployment
    assert ToAndFro().decide(two).target == one.deployment


def test_a_look_counts_the_records_and_what_the_process_holds(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.flink.soak.FOLDER", tmp_path)
    app = tmp_path / "state/default.soak"
    app.mkdir(parents=True)
    for name, size in {"records.sqlite": 100, "records.sqlite-wal": 20, "status.json": 5}.items():
        (app / name).write_bytes(bytes(size))

    found = look(psutil.Process())

    assert found.records == 120
    assert found.memory > 0
    assert found.descriptors > 0

from dataclasses import replace

import numpy as np
import pytest

from tests.simulator.fitting.known_job import OperatorInterval, a_model, a_structure, run_job
from weir_simulator.fitting.fit import calibrate
from weir_simulator.fitting.quality import judge_fit, split_blocks


@pytest.fixture(scope="module")
def job():
    """Return a job of two operators in a steady state, its structure and a fit of its half."""
    truths = (a_model("match"), a_model("sum", service_mean=0.01))
    plan = {
        "match": OperatorInterval(deployment={"small/1": 3}, rate=60.0),
        "sum": OperatorInterval(deployment={"small/1": 2}, rate=60.0),
    }
    samples = run_job(truths, [plan] * 24, rng=np.random.default_rng(1))
    structure = a_structure(*truths, edges=[("match", "sum")])
    return calibrate(samples.intervals[:12], (), structure), samples.intervals[12:]


def with_response(interval, name, factor):
    """Return the interval with a response time so many times as long."""
    sample = interval.operators[name]
    slower = replace(sample, response_time=sample.response_time * factor)
    return replace(interval, operators={**interval.operators, name: slower})


def test_whole_blocks_are_held_out_a_quarter_of_them(job):
    _, intervals = job
    long = [replace(intervals[0], time=60.0 * (n + 1)) for n in range(24 * 60)]

    fitted, held_out, block = split_blocks(long)

    hours = {int((each.time - 1) // 3600) for each in held_out}
    assert block == 3600.0
    assert hours == {3, 7, 11, 15, 19, 23}
    assert len(held_out) == 6 * 60
    assert len(fitted) + len(held_out) == len(long)


def test_a_short_time_is_cut_into_eight_blocks(job):
    _, intervals = job
    short = [replace(intervals[0], time=5.0 * (n + 1), seconds=5.0) for n in range(80)]

    _, held_out, block = split_blocks(short)

    assert block == 50.0
    assert len(held_out) == 20


def test_a_job_like_the_fitted_one_is_predicted_well(job):
    calibration, later = job

    quality = judge_fit(calibration, later, block=180.0)

    assert quality.good
    assert quality.sentence.endswith("(4 of them judged)")
    assert quality.error < 0.15


def test_the_operator_that_is_off_is_named(job):
    calibration, later = job
    slower = [with_response(each, "sum", 3.0) for each in later]

    quality = judge_fit(calibration, slower, block=180.0)

    assert not quality.good
    assert "operator 'sum'" in quality.sentence


def test_disturbed_intervals_are_not_judged(job):
    calibration, later = job
    disturbed = [replace(with_response(each, "sum", 9.0), disturbed=True) for each in later[:6]]

    quality = judge_fit(calibration, [*disturbed, *later[6:]], block=180.0)

    assert quality.good
    assert quality.sentence.endswith("(2 of them judged)")


def test_intervals_that_were_steady_and_are_predicted_not_to_be_make_a_bad_fit(job):
    calibration, later = job
    slow = {name: replace(each, service_mean=0.1) for name, each in calibration.models.items()}

    quality = judge_fit(replace(calibration, models=slow), later, block=180.0)

    assert not quality.good
    assert "got none in 100% of them" in quality.sentence


def test_hours_that_chance_moves_are_judged_together(job):
    calibration, later = job
    # As of few records each, which happen to be slow or fast: over all it is as it was.
    factors = [1.4, 1.3, 1.5, 0.6, 0.5, 0.7] * 2
    noisy = [
        with_response(with_response(each, "match", factor), "sum", factor)
        for each, factor in zip(later, factors, strict=True)
    ]

    quality = judge_fit(calibration, noisy, block=180.0)

    assert quality.good
    assert quality.sentence.endswith("(4 of them judged)")  # each of which is 30 % to 50 % off


def test_a_miss_that_may_be_chance_asks_for_more_records(job):
    calibration, later = job
    two = [with_response(later[0], "sum", 9.0), later[1]]

    quality = judge_fit(calibration, two, block=60.0)

    assert not quality.good
    assert quality.chance > 0.15
    assert "wait for more records" in quality.sentence


def test_a_miss_of_one_interval_may_be_all_chance(job):
    calibration, later = job

    quality = judge_fit(calibration, [with_response(later[0], "sum", 9.0)], block=60.0)

    assert not quality.good
    assert quality.sentence.endswith("which may be chance (all of it): wait for more records")


def test_one_interval_is_too_little_to_judge_by_however_well_it_is_predicted(job):
    calibration, later = job
    alone = [judge_fit(calibration, [each], block=60.0) for each in later]

    best = min(alone, key=lambda quality: quality.error)

    assert best.error < 0.05
    assert not best.good
    assert best.sentence.endswith("may be chance: wait for more")


def test_what_chance_moves_by_more_than_is_allowed_is_too_little_to_judge_by(job):
    calibration, later = job
    factors = (0.2, 1.8) * 3
    noisy = [
        with_response(with_response(each, "match", factor), "sum", factor)
        for each, factor in zip(later[:6], factors, strict=True)
    ]

    quality = judge_fit(calibration, noisy, block=180.0)

    assert quality.error < 0.15 < quality.chance
    assert not quality.good


def test_a_last_stretch_that_chance_moved_far_does_not_undo_the_judgement(job):
    calibration, later = job
    paused = with_response(with_response(later[-1], "match", 8.0), "sum", 8.0)

    quality = judge_fit(calibration, [*later[:-1], paused], block=120.0)

    assert quality.good


@pytest.mark.parametrize(
    ("block", "said", "judged"), [(22.5, "22 s", 12), (720.0, "12 min", 1), (3600.0, "1 h", 1)]
)
def test_the_sentence_names_the_length_of_the_stretches(job, block, said, judged):
    calibration, later = job

    quality = judge_fit(calibration, later, block=block)

    assert quality.sentence.startswith(f"Held-out stretches of {said} are predicted with a median")
    assert quality.sentence.endswith(f"({judged} of them judged)")

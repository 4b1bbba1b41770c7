from tests.simulator.builders import a_tuning
from weir_simulator.reports import tuning


def test_what_was_gained_is_said_with_what_is_allowed():
    order, result = a_tuning()

    rows = [(row.before, row.after, row.allowed) for row in tuning.outcomes(order, result)]

    assert rows[0] == ("4.000 ± 0.100", "3.000 ± 0.100", "")
    assert rows[1] == ("1.00 ± 0.20", "4.00 ± 0.20", "5")
    assert tuning.verdict(order, result) == (
        "Better than before: it costs 25.0 % less (probability 99.0%) and keeps the "
        "constraints (probability 98.0%)."
    )


def test_a_result_that_is_not_surely_better_says_so():
    verdict = tuning.verdict(*a_tuning(better=False))

    assert verdict.startswith(
        "Not better with enough confidence: it costs less with a probability of 60"
    )
    assert "98.0%" in verdict
    assert "95.0%" in verdict


def test_where_too_little_was_simulated_it_says_what_is_missing():
    order, result = a_tuning(better=False)
    doubt = "40 slots were simulated, and traffic shows only in 160"

    verdict = tuning.verdict(order, result.model_copy(update={"certainty": None, "doubt": doubt}))

    assert verdict.startswith(
        f"Not better with enough confidence: {doubt}; keep the current settings"
    )


def test_constraints_that_nothing_keeps_are_named():
    assert tuning.verdict(*a_tuning(keeps=False)).startswith(
        "No simulated settings meet the limits of 5 % missed slots and 144 restarts per day"
    )


def test_a_short_simulation_is_never_the_best():
    _, result = a_tuning()
    cheap = result.evaluations[1].model_copy(update={"feasible": True})

    best = tuning.best_of([*result.evaluations, cheap])

    assert best == result.evaluations[2]


def test_progress_says_the_best_so_far():
    order, result = a_tuning()

    before = tuning.best_so_far(order, result.evaluations[1:2])
    after = tuning.best_so_far(order, result.evaluations)

    assert before == "1 simulation, none meets the constraints yet"
    assert after == "Best of 3: 3.000 per hour, 4.00 % missed, 28.8 restarts a day"

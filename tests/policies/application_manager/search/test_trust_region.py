import numpy as np
import pytest

from weir_policies.application_manager.search.gaussian_process import fit_process
from weir_policies.application_manager.search.protocol import Limits, Trial, TrialOutcome
from weir_policies.application_manager.search.surrogate import SurrogateSearch
from weir_policies.application_manager.search.trust_region import (
    FIRST_EDGE,
    MIN_EDGE,
    WHOLE_EDGE,
    TrustRegion,
)

LIMITS = Limits(violations=0.05, reconfigurations=0.1)


def an_outcome(money=10.0, violations=0.01):
    return TrialOutcome(money=money, violations=violations, reconfigurations=0.0)


BEST = an_outcome()
CHEAPER = an_outcome(money=9.0)
CHEAPER_BUT_BROKEN = an_outcome(money=5.0, violations=0.06)


def a_region(outcomes):
    region = TrustRegion(3, LIMITS)
    for outcome in outcomes:
        region.judge(outcome, BEST)
    return region


def test_the_box_halves_after_as_many_failures_as_it_bears():
    patient = a_region([BEST] * 3)
    failed = a_region([BEST] * 4)

    assert patient.edge == FIRST_EDGE
    assert failed.edge == FIRST_EDGE / 2


def test_a_cheaper_point_that_breaks_a_limit_is_a_failure():
    region = a_region([CHEAPER_BUT_BROKEN] * 4)

    assert region.edge == FIRST_EDGE / 2


def test_a_success_between_failures_makes_them_count_again():
    region = a_region([BEST, BEST, BEST, CHEAPER, BEST, BEST, BEST])

    assert region.edge == FIRST_EDGE


def test_the_box_doubles_after_two_successes_and_not_beyond_its_greatest():
    grown = a_region([BEST] * 4 + [CHEAPER] * 2)
    again = a_region([CHEAPER] * 4)

    assert grown.edge == again.edge == FIRST_EDGE


def test_a_box_that_fails_at_its_least_begins_again_as_large_as_the_cube():
    minimum = a_region([BEST] * 12)
    renewed = a_region([BEST] * 16)

    assert minimum.edge == MIN_EDGE
    assert renewed.edge == WHOLE_EDGE


def test_a_box_that_failed_often_is_narrow_until_it_begins_again():
    narrow = [a_region([BEST] * failures).is_narrow for failures in (7, 8, 15, 16)]

    assert narrow == [False, True, True, False]


@pytest.mark.parametrize("edge", [0.4, 0.05])
def test_what_is_proposed_lies_in_the_box_around_the_best_trial(edge):
    def fit(inputs, outputs, start):
        return fit_process(inputs, outputs, start=start)

    rng = np.random.default_rng(1)
    surrogate = SurrogateSearch(range(3), np.full(3, 0.5), LIMITS, fit)
    for point in rng.random((8, 3)):
        surrogate.add(Trial(coordinates=point, origin="test"), an_outcome(money=3 + point.sum()))
    best = np.array([0.1, 0.2, 0.15])
    surrogate.add(Trial(coordinates=best, origin="test"), an_outcome(money=1.0))
    surrogate.refresh()

    points = [surrogate.propose(rng, edge=edge) for _ in range(5)]

    assert all((np.abs(point - best) <= edge / 2 + 1e-12).all() for point in points)
    assert all(((point >= 0) & (point <= 1)).all() for point in points)

import math

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.model.season import HOURS, Season
from weir_policies.operator_manager.planner.rate import take_season
from weir_policies.operator_manager.planner.state import DAY, PlannerMemory
from weir_policies.testing import a_transition, an_observation

DAILY = tuple(100 * math.exp(math.sin(2 * math.pi * hour / 24)) for hour in range(HOURS))
UNKNOWN = (math.nan,) * HOURS


def taken(season, *, floor=-math.inf):
    own = PlannerMemory(np.zeros(PlannerMemory.header, dtype=np.int64))
    take_season(own, season, floor=floor)
    return own


def test_the_usual_day_is_the_mean_of_the_weeks_days_on_a_scale_of_logs():
    own = taken(Season(rates=DAILY, weeks=2))

    at_six = own.usual_day[6 * DAY // 24]
    at_eighteen = own.usual_day[18 * DAY // 24]
    assert at_six - at_eighteen == pytest.approx(2.0, abs=0.05)
    assert set(own.days_seen) == {14.0}
    assert set(own.weeks_seen) == {2.0}


def test_a_day_that_differs_stands_in_the_week_alone():
    quiet_sunday = DAILY[: 6 * 24] + tuple(rate / 2 for rate in DAILY[6 * 24 :])

    own = taken(Season(rates=quiet_sunday))

    week = own.usual_week.reshape(7, DAY)
    assert week[6, DAY // 2] - week[0, DAY // 2] == pytest.approx(-math.log(2))


def test_hours_that_nobody_knows_are_left_to_be_learned():
    first_day = DAILY[:24] + UNKNOWN[24:]

    own = taken(Season(rates=first_day))

    seen = own.weeks_seen
    assert seen[:DAY].all()
    assert not seen[DAY:].any()


def test_an_unknown_week_changes_nothing():
    own = taken(Season(rates=UNKNOWN))

    assert not own.words.any()


def test_a_rate_without_season_gives_no_reason_to_expect_one():
    own = taken(Season(rates=(100.0,) * HOURS))

    assert own.day_day == pytest.approx(0, abs=1e-12)
    assert own.day_change == pytest.approx(0, abs=1e-12)


def test_rates_below_the_floor_are_all_the_same():
    own = taken(Season(rates=(0.0, 1.0) * (HOURS // 2)), floor=math.log(5))

    assert set(own.usual_week) == {math.log(5)}


@pytest.mark.parametrize(
    ("rates", "weeks"),
    [((1.0,) * 24, 1), ((-1.0, *DAILY[1:]), 1), ((math.inf, *DAILY[1:]), 1), (DAILY, 0)],
)
def test_what_is_no_week_is_refused(rates, weeks):
    with pytest.raises(ParameterError, match="Expected"):
        Season(rates=rates, weeks=weeks)


def test_a_week_can_begin_at_any_hour():
    season = Season(rates=tuple(map(float, range(HOURS))))

    assert season.beginning_at(24).rates[0] == 24.0
    assert season.beginning_at(-1).rates[:2] == (167.0, 0.0)


def an_interval():
    return a_transition(an_observation(), an_observation(time=60.0))


def a_planner():
    planner = registry.build("planner", rng=np.random.default_rng(1))
    assert isinstance(planner, KernelPolicy)
    return planner


def test_a_policy_that_has_learned_already_is_not_changed():
    planner = a_planner()
    planner.learn(an_interval())
    before = planner.state_dict()

    planner.warm_start(Season(rates=DAILY))

    assert planner.state_dict() == before


def test_a_policy_that_is_made_to_forget_begins_with_the_season_again():
    planner = a_planner()
    planner.warm_start(Season(rates=DAILY))
    untaught = planner.state_dict()
    planner.learn(an_interval())
    first = planner.state_dict()

    planner.load_state_dict(untaught)
    planner.learn(an_interval())

    assert planner.state_dict() == first
    other = a_planner()
    other.learn(an_interval())
    assert other.state_dict() != first

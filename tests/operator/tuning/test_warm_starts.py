"""Where a search of the slow loop begins, and what is told of one that cannot be sure."""

import pytest

from tests.operator.tuning.fakes import an_answer
from tests.operator.tuning.tuning_setting import BUDGETS
from weir_operator.loop.arbitrate import UNTUNED
from weir_policies.policy import CostWeights, Tuning


async def test_where_too_little_was_simulated_to_say_so_it_is_told_once(setting_of):
    answer = an_answer(BUDGETS, better=False)
    doubt = {"certainty": None, "doubt": "40 slots were simulated, too few"}
    setting = setting_of(answer.model_copy(update=doubt))

    await setting.loop.attempt()
    await setting.loop.attempt()

    assert setting.sharing.tuned == UNTUNED
    assert setting.reasons == ["TuningUnsure"]


async def test_what_was_not_surely_better_is_where_the_next_search_begins(setting_of):
    answer = an_answer(BUDGETS, better=False)
    setting = setting_of(answer)

    await setting.loop.attempt()
    setting.open()
    await setting.loop.attempt()

    first, second = (work.warm_starts for work, _ in setting.tuner.calls)
    assert first == ()
    assert second == (answer.best,)


async def test_a_search_begins_with_what_similar_streamapps_came_to(setting_of):
    theirs = Tuning(
        weights=CostWeights(violation=0.9, resources=0.05, reconfiguration=0.05),
        budgets={name: budget / 10 for name, budget in BUDGETS.items()},
    )
    setting = setting_of(similar=(theirs,))

    await setting.loop.attempt()

    order = setting.tuner.calls[0][0]
    (start,) = order.warm_starts
    assert start.weights == theirs.weights
    assert sum(start.budgets.values()) == pytest.approx(order.experiment.objective.response_time)
    assert start.budgets["match"] == pytest.approx(2 * start.budgets["count"])

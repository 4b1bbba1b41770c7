import itertools
from dataclasses import replace

import pytest

from weir_policies.application_manager.arbitration import Request, arbitrate
from weir_policies.application_manager.restart_budget import RestartBudget
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.policy import ChangeKind

BUDGET = RestartBudget(size=3, refill_every=3600.0)
FULL = BUDGET.fill(0.0)


def tokens_left(count):
    tokens = FULL
    for _ in range(BUDGET.size - count):
        tokens = tokens.take(BUDGET, 0.0)
    return tokens


def rescale(operator, target, *, current=None, urgency=0.8, saving=-0.1):
    return Request(
        operator=operator,
        kind=ChangeKind.RESCALE,
        current=current or {"small": 2},
        target=target,
        urgency=urgency,
        saving=saving,
    )


def scale_in(operator, *, saving=0.1):
    return rescale(operator, {"small": 1}, urgency=0.2, saving=saving)


def resize(operator, *, urgency=0.8):
    same = {"small": 2}
    return Request(
        operator=operator,
        kind=ChangeKind.RESIZE,
        current=same,
        target=same,
        urgency=urgency,
        saving=-0.1,
    )


def a_flow(*edges):
    return Dataflow(
        operators=tuple(dict.fromkeys(itertools.chain(*edges))),
        edges=tuple(Edge(source=source, target=target) for source, target in edges),
    )


CHAIN = a_flow(("parse", "match"), ("match", "sink"))


def judge(
    *requests, dataflow=CHAIN, saturated=(), pool_limits=None, tokens=FULL, now=0.0, **settings
):
    return arbitrate(
        requests,
        dataflow=dataflow,
        held={"small": 2 * len(dataflow.operators)},
        saturated=saturated,
        pool_limits=pool_limits or {},
        tokens=tokens,
        budget=settings.pop("budget", BUDGET),
        now=now,
        **settings,
    )


def reason(verdicts, operator):
    return verdicts.sentences[operator]


def test_all_that_is_granted_shares_one_restart_and_one_token():
    verdicts = judge(
        rescale("parse", {"small": 3}, urgency=0.6),
        rescale("match", {"small": 4}, urgency=0.9),
        scale_in("sink"),
    )

    assert verdicts.granted == ("parse", "match", "sink")
    assert verdicts.restart
    assert verdicts.tokens.available(BUDGET, 0.0) == 2
    assert reason(verdicts, "match") == "Granted: it takes one restart token"
    assert reason(verdicts, "sink") == "Granted: it shares the restart of match"


def test_a_resize_is_free_even_without_tokens():
    verdicts = judge(resize("match"), tokens=tokens_left(0))

    assert verdicts.granted == ("match",)
    assert not verdicts.restart
    assert verdicts.tokens.available(BUDGET, 0.0) == 0


def test_nothing_proposed_takes_nothing():
    verdicts = judge()

    assert verdicts.sentences == {}
    assert not verdicts.restart
    assert verdicts.tokens.available(BUDGET, 0.0) == 3


def test_an_empty_budget_denies_and_says_when_the_next_token_comes():
    verdicts = judge(rescale("match", {"small": 3}), tokens=tokens_left(0), now=600.0)

    assert verdicts.granted == ()
    assert not verdicts.restart
    assert (
        reason(verdicts, "match")
        == "Denied: the restart budget is empty (applicationManager.restartBudget); the next is "
        "available in 50 min"
    )


def test_a_saving_leaves_the_last_token_for_an_emergency():
    one_left = tokens_left(1)

    saving, emergency = (
        judge(scale_in("sink"), tokens=one_left),
        judge(rescale("match", {"small": 3}), tokens=one_left),
    )

    assert saving.granted == ()
    assert "the last restart token is reserved" in reason(saving, "sink")
    assert emergency.granted == ("match",)


def test_a_saving_rides_along_with_an_urgent_change_on_the_last_token():
    verdicts = judge(scale_in("sink"), rescale("match", {"small": 3}), tokens=tokens_left(1))

    assert verdicts.granted == ("sink", "match")
    assert verdicts.tokens.available(BUDGET, 0.0) == 0


def test_a_bucket_of_one_token_lets_savings_have_it():
    single = RestartBudget(size=1, refill_every=3600.0)

    verdicts = judge(scale_in("sink"), budget=single, tokens=single.fill(0.0))

    assert verdicts.granted == ("sink",)


def test_the_cap_of_the_day_is_named():
    capped = RestartBudget(size=3, refill_every=60.0, max_per_day=1)
    used = capped.fill(0.0).take(capped, 0.0)

    verdicts = judge(rescale("match", {"small": 3}), budget=capped, tokens=used, now=12 * 3600.0)

    assert "all 1 restarts allowed in 24 hours" in reason(verdicts, "match")
    assert "720 min" in reason(verdicts, "match")


def test_a_full_pool_goes_to_the_more_urgent_and_the_other_is_told_why():
    verdicts = judge(
        rescale("parse", {"small": 3}, urgency=0.6),
        rescale("match", {"small": 4}, urgency=0.9),
        pool_limits={"small": 8},
    )

    assert verdicts.granted == ("match",)
    assert "pool small is full" in reason(verdicts, "parse")
    assert "limit of 8" in reason(verdicts, "parse")


def test_the_larger_saving_comes_first_among_the_equally_urgent():
    move = {"small": 0, "large": 1}
    little = rescale("parse", move, urgency=0.2, saving=0.1)
    much = rescale("match", move, urgency=0.2, saving=0.4)

    verdicts = judge(little, much, pool_limits={"large": 1})

    assert verdicts.granted == ("match",)


def test_room_that_another_operator_gives_up_is_not_there_before_the_restart():
    verdicts = judge(rescale("match", {"small": 3}), scale_in("sink"), pool_limits={"small": 6})

    assert verdicts.granted == ("sink",)


def test_feeding_an_operator_that_is_saturated_and_denied_is_futile():
    verdicts = judge(
        rescale("parse", {"small": 3}, urgency=0.9),
        rescale("match", {"large": 3}, urgency=0.8),
        saturated=["match"],
        pool_limits={"large": 2},
    )

    assert verdicts.granted == ()
    assert "only to match, which is saturated" in reason(verdicts, "parse")


def test_feeding_an_operator_that_is_saturated_and_at_its_limit_is_futile():
    verdicts = judge(rescale("parse", {"small": 3}), saturated=["sink"])

    assert verdicts.granted == ()
    assert "only to sink, which is saturated" in reason(verdicts, "parse")


@pytest.mark.parametrize("remedy", [rescale("match", {"small": 4}), resize("match")])
def test_feeding_a_saturated_operator_that_grows_too_is_not_futile(remedy):
    verdicts = judge(rescale("parse", {"small": 3}), remedy, saturated=["match"])

    assert verdicts.granted == ("parse", "match")


def test_an_operator_with_another_way_out_may_grow():
    both = a_flow(("parse", "match"), ("parse", "sink"), ("match", "sink"))

    verdicts = judge(rescale("parse", {"small": 3}), dataflow=both, saturated=["match"])

    assert verdicts.granted == ("parse",)


def test_a_saving_upstream_of_a_saturated_operator_is_welcome():
    verdicts = judge(scale_in("parse"), saturated=["match"])

    assert verdicts.granted == ("parse",)


def test_room_of_a_futile_proposal_goes_to_the_next():
    wider = replace(CHAIN, operators=(*CHAIN.operators, "other"))

    verdicts = judge(
        rescale("parse", {"small": 3}, urgency=0.9),
        rescale("other", {"small": 3}, urgency=0.6),
        dataflow=wider,
        saturated=["match"],
        pool_limits={"small": 9},
    )

    assert verdicts.granted == ("other",)

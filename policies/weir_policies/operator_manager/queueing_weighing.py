"""The arithmetic of `queueing`: which deployment wins, all of them judged at once.

Rows of all arrays, shape `(d,)`, are the deployments of one menu. What depends only on the shape of
the model and on the present deployment is computed once and kept: a decision costs the predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

import numpy as np

from weir_policies.model.arrays import Counts, Flags, Floats
from weir_policies.model.cost import find_restarts, price_deployments
from weir_policies.model.deployments import enumerate_deployments
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import find_quantile, predict, predict_means
from weir_policies.model.sharing import predict_utilisation
from weir_policies.promise import Observation, OperatorModel

AS_GOOD = 0.05
"""Where nothing fits: what is within this part of the best scores the same; the cheapest wins."""


class Case(Enum):
    """Which of the policy's rules decided."""

    KEEP = auto()
    """The present deployment fits and nothing is worth a change."""
    SAVE = auto()
    """It fits, and something cheaper does too."""
    NEED = auto()
    """It does not fit, and something else does."""
    TOO_SLOW = auto()
    """Nothing keeps the budget."""
    TOO_SMALL = auto()
    """Nothing has the capacity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What the deployments are judged by."""

    rate: float
    """Records/s planned for."""
    catching_up: float
    """Records/s that must be carried while the backlog is worked off."""
    peak: float
    """Records/s that a cheaper deployment must carry."""
    lasting: float
    """Records/s that a deployment must carry to be worth a restart that is needed."""
    budget: float
    quantile: float | None
    utilisation_cap: float
    minimum_saving: float
    strain: str | None
    """Why the operator must not get less capacity, or `None`."""
    obstacle: str | None
    """Why nothing cheaper is considered while the present deployment fits, or `None`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Menu:
    """The deployments to choose from."""

    counts: Counts
    """Shape `(d, t)`."""
    price: Floats
    """Currency per hour."""
    restarts: Flags
    """Whether only a restart goes there."""
    present: int | None
    """Row of the present deployment; `None` where it is out of bounds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """All deployments, judged."""

    plan: Plan
    menu: Menu
    case: Case
    chosen: int
    """Row of the winner."""
    response_time: Floats
    """Mean or percentile at the planned rate, s."""
    utilisation: Floats
    """Of the worst replica while catching up."""
    fails_at_peak: Flags
    """Cheaper, fits now, and would not at the peak rate."""
    too_little: Flags
    """Less capacity than now, in an operator under strain."""
    score: Floats
    """What was minimised; `inf` is ruled out."""


def weigh(observation: Observation, plan: Plan) -> Weighed:
    """Judge all deployments and choose one."""
    model = observation.model
    menu = _read_menu(_shape(model), model.max_replicas, observation.deployment)
    response_time, utilisation = _judge(model, menu.counts, plan.rate, plan)
    if plan.catching_up > plan.rate:
        utilisation = predict_utilisation(model, menu.counts, plan.catching_up)
    fits = (response_time <= plan.budget) & (utilisation <= plan.utilisation_cap)
    nothing = np.zeros(fits.shape, dtype=np.bool_)
    too_little = nothing
    # A present deployment that breaks a limit must go, even if what is allowed is less.
    if plan.strain is not None and menu.present is not None:
        speedups = np.array([node_type.speedup for node_type in model.node_types])
        capacity = menu.counts @ speedups
        too_little = capacity < np.array(observation.deployment.counts) @ speedups - 1e-9
    fails_at_peak = nothing

    present = menu.present
    if present is not None and fits[present]:
        cheaper = fits & (menu.price < menu.price[present])
        if plan.obstacle is not None:
            admissible = fits & ~cheaper
        else:
            fails_at_peak = _fail_at_peak(model, menu, cheaper, plan)
            admissible = fits & ~fails_at_peak
        score = _score_price(menu, admissible, plan)
        chosen = _choose(score, response_time, present)
        case = Case.KEEP if chosen == present else Case.SAVE
    elif (fits & ~too_little).any():
        case = Case.NEED
        lasting = _drop_short_lived(model, menu, fits & ~too_little, plan)
        score = _score_price(menu, lasting, plan)
        chosen = _choose(score, response_time, present)
    else:
        usable = ~too_little
        keeps_budget = usable & (response_time <= plan.budget)
        if keeps_budget.any():
            case, score = Case.TOO_SMALL, np.where(keeps_budget, utilisation, np.inf)
        elif np.isinf(response_time[usable]).all():
            case, score = Case.TOO_SMALL, np.where(usable, utilisation, np.inf)
        else:
            case, score = Case.TOO_SLOW, np.where(usable, response_time, np.inf)
        score = np.where(score <= score.min() * (1 + AS_GOOD), score.min(), score)
        chosen = _choose(score, menu.price, present)
    return Weighed(
        plan=plan,
        menu=menu,
        case=case,
        chosen=chosen,
        response_time=response_time,
        utilisation=utilisation,
        fails_at_peak=fails_at_peak,
        too_little=too_little,
        score=score,
    )


def _judge(model: OperatorModel, counts: Counts, rate: float, plan: Plan) -> tuple[Floats, Floats]:
    """Return the response time that must keep the budget, mean or percentile, and utilisation."""
    if plan.quantile is None:
        return predict_means(model, counts, rate)
    prediction = predict(model, counts, rate)
    queued = prediction.response_time - model.network_time  # the network time does not vary
    percentile = find_quantile(queued, prediction.variance, plan.quantile) + model.network_time
    return percentile, prediction.utilisation


def _fail_at_peak(model: OperatorModel, menu: Menu, cheaper: Flags, plan: Plan) -> Flags:
    """Mark what is cheaper and would not fit at the peak rate."""
    fails = np.zeros(cheaper.shape, dtype=np.bool_)
    rows = np.flatnonzero(cheaper)
    if rows.size:
        response_time, utilisation = _judge(model, menu.counts[rows], plan.peak, plan)
        fails[rows] = ~((response_time <= plan.budget) & (utilisation <= plan.utilisation_cap))
    return fails


def _drop_short_lived(model: OperatorModel, menu: Menu, able: Flags, plan: Plan) -> Flags:
    """Leave out restarts to what a little growth would outgrow, unless all that is able is that.

    The same margin keeps what is too tight from being scaled in to, so neither undoes the other.
    """
    lasting = able.copy()
    rows = np.flatnonzero(able & menu.restarts)
    response_time, utilisation = _judge(model, menu.counts[rows], plan.lasting, plan)
    lasting[rows] = (response_time <= plan.budget) & (utilisation <= plan.utilisation_cap)
    return lasting if lasting.any() else able


def _score_price(menu: Menu, admissible: Flags, plan: Plan) -> Floats:
    """Return prices, those with a restart raised so that they must save `minimum_saving`."""
    raised = np.where(menu.restarts, menu.price / (1 - plan.minimum_saving), menu.price)
    return np.where(admissible, raised, np.inf)


def _choose(score: Floats, then: Floats, present: int | None) -> int:
    """Return the row with the least score; among equals the present one, else the least `then`."""
    best = np.flatnonzero(score == score.min())
    if present is not None and score[present] == score[best[0]]:
        return present
    return int(best[then[best].argmin()])


Shape = tuple[tuple[str, int | None, float], ...]


def _shape(model: OperatorModel) -> Shape:
    """Return what a menu depends on: pools, limits, prices. Learned speedups are not in it."""
    return tuple(
        (node_type.pool, node_type.pool_limit, node_type.price) for node_type in model.node_types
    )


@lru_cache(maxsize=256)  # operators of one controller; one of 285 rows takes 10 kB
def _read_menu(shape: Shape, max_replicas: int, present: Deployment) -> Menu:
    """Return the menu of a model's shape, as seen from the present deployment."""
    node_types = tuple(
        NodeType(name=str(place), pool=pool, speedup=math.nan, price=price, pool_limit=limit)
        for place, (pool, limit, price) in enumerate(shape)
    )
    counts = enumerate_deployments(node_types, max_replicas=max_replicas, present=present)
    here = np.array(present.counts, dtype=np.int64)
    rows = np.flatnonzero((counts == here).all(axis=1))
    return Menu(
        counts=counts,
        price=price_deployments(counts, node_types),
        restarts=find_restarts(counts, here, node_types),
        present=int(rows[0]) if rows.size else None,
    )

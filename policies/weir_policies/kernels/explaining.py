"""Explains decisions of compiled policies: reason, candidates, expectation, urgency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from weir_policies.kernels.expectation import expect
from weir_policies.kernels.steps import choose_action, count_actions, is_valid, total
from weir_policies.kernels.view import View
from weir_policies.kernels.wording import format_deployment, urgency_of_need, urgency_of_saving
from weir_policies.model.deployments import within_reach
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Candidate, Decision, Observation

AT_MOST = 12
"""Candidates that a decision names."""


def name_scores(view: View, score_of: Callable[[int], float]) -> dict[Deployment, float]:
    """Return the scores of all valid actions by where they lead.

    Args:
        view: Of one operator; its target is overwritten, before an action's score is asked for.
        score_of: Returns the score of an action.
    """
    scores = {}
    for action in range(count_actions(view)):
        if is_valid(0, view, view.counts[0], total(view.counts[0]), action):
            choose_action(0, view, action)
            deployment = Deployment(tuple(int(count) for count in view.target[0]))
            scores[deployment] = float(score_of(action))
    return scores


def explain_rule(observation: Observation, target: Deployment, reason: str) -> Decision:
    """Return the decision of a rule that leaves one answer: it rules out all others in reach."""
    model, here = observation.model, observation.deployment
    reached = within_reach(here, k_max=model.max_replicas, node_types=model.node_types)
    others = [each for each in dict.fromkeys((here, *reached)) if each != target]
    return _compose(
        observation,
        target,
        reason,
        {each: math.inf for each in others},
        chosen="Chosen by the rule",
        rejected="Rejected: the rule asks for another step",
    )


def explain_scores(
    observation: Observation,
    target: Deployment,
    reason: str,
    scores: Mapping[Deployment, float],
) -> Decision:
    """Return the decision of a policy that compared scores, lower being better.

    Args:
        observation: What was seen.
        target: The chosen deployment. Where it does not have the least score, as when a policy
            explores, the others count as not compared.
        reason: Why, a clause without its beginning.
        scores: Of the deployments that were compared, the target among them.
    """
    chosen = "Chosen: the lowest expected cost"
    others = {each: score for each, score in scores.items() if each != target}
    if scores[target] > min(scores.values()):
        unweighed = dict.fromkeys(others, math.inf)
        return _compose(
            observation, target, reason, unweighed, chosen=chosen, rejected="Not tried this time"
        )
    return _compose(
        observation,
        target,
        reason,
        others,
        chosen=chosen,
        rejected="Rejected: a higher expected cost",
        score=scores[target],
    )


def _compose(
    observation: Observation,
    target: Deployment,
    reason: str,
    others: Mapping[Deployment, float],
    *,
    chosen: str,
    rejected: str,
    score: float = 0.0,
) -> Decision:
    ranked = sorted(others, key=others.__getitem__)[: AT_MOST - 1]
    first, *rest = expect(observation, [target, *ranked])
    candidates = [Candidate(deployment=target, score=score, expectation=first, verdict=chosen)]
    for each, expectation in zip(ranked, rest, strict=True):
        candidates.append(
            Candidate(
                deployment=each, score=others[each], expectation=expectation, verdict=rejected
            )
        )
    return Decision(
        target=target,
        reason=describe_step(observation, target) + reason,
        candidates=tuple(candidates),
        expectation=first,
        urgency=find_urgency(observation, target),
    )


def find_urgency(observation: Observation, target: Deployment) -> float:
    """Return how urgent a change is: a need where it adds capacity, else a saving; 0 for none."""
    here, node_types = observation.deployment, observation.model.node_types
    if target == here:
        return 0.0
    speedups = [node_type.speedup for node_type in node_types]
    gained = sum(
        (after - before) * speedup
        for after, before, speedup in zip(target, here, speedups, strict=True)
    )
    busiest = max(observation.utilisation, default=0.0)
    if gained > 0:
        return urgency_of_need(busiest)
    return urgency_of_saving(1 - busiest)


def describe_step(observation: Observation, target: Deployment) -> str:
    """Return the beginning of a reason, such as `Adds a replica to reach 3 x small/1: `."""
    here, node_types = observation.deployment, observation.model.node_types
    if target == here:
        return "Stays: "
    there = format_deployment(target, node_types)
    steps = [after - before for after, before in zip(target, here, strict=True) if after != before]
    match steps:
        case [1]:
            return f"Adds a replica to reach {there}: "
        case [-1]:
            return f"Removes a replica to reach {there}: "
        case _:
            return f"Goes to {there}: "

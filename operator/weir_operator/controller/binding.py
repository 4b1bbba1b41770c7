"""What keeps an operator from doing better than it does: said, or users look for it in vain. Pure.

Room in a pool that operators share, and the restart budget, are said by arbitration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weir_operator.controller.proposals import Proposal, Ruling
from weir_policies.operator_manager.wording import say_time
from weir_policies.promise import ChangeKind, Neighbourhood


def say_what_binds(
    ruling: Ruling,
    proposals: Mapping[str, Proposal],
    neighbourhoods: Mapping[str, Neighbourhood],
) -> Ruling:
    """Return the ruling with what binds each operator said in its verdict."""
    verdicts = dict(ruling.verdicts)
    for name, proposal in proposals.items():
        clause = find_binding(proposal, neighbourhoods[name])
        if clause:
            verdicts[name] = f"{verdicts.get(name, 'Stays')}; {clause}"
    return replace(ruling, verdicts=verdicts)


def find_binding(proposal: Proposal, neighbourhood: Neighbourhood) -> str:
    """Return what binds where the decision is not expected to suffice, a clause.

    Empty where it is, or where the policy does not predict.
    """
    seen, decision = proposal.observation, proposal.decision
    model, target = seen.model, decision.target
    expected = decision.expectation
    if expected.utilisation > 1:
        short = "it is not expected to keep up"
    elif expected.response_time > seen.budget:  # what is NaN binds nothing
        short = f"its budget of {say_time(seen.budget)} is not expected to be kept"
    else:
        return ""
    if neighbourhood is Neighbourhood.ONE and proposal.kind is not ChangeKind.NOTHING:
        return f"{short} yet: its policy moves one replica at a time"
    if target.size >= model.max_replicas:
        return f"{short}: maxReplicas = {model.max_replicas} binds"
    limits = {each.pool: each.pool_limit for each in model.node_types}
    used = target.per_pool(model.node_types)
    full = [pool for pool, most in limits.items() if most is not None and used.get(pool, 0) >= most]
    if len(full) == len(limits):
        return f"{short}: there is no more room in {' and '.join(full)}"
    return f"{short}: no deployment in reach is expected to do better at what it costs"

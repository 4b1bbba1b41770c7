"""The Application Manager: budgets for the operators, and verdicts on what they propose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir_operator.loop.budgets import BudgetSharing, Shares
from weir_operator.loop.evaluate import Snapshot
from weir_operator.loop.guards import Guard, ScalingDirection, refuse_change, refuse_target
from weir_operator.loop.operator_manager import ObservedOperator
from weir_operator.loop.planned_changes import find_failed
from weir_operator.loop.proposals import Move, Proposal, Ruling
from weir_operator.loop.restart_limits import SharedRestarts, TokenGate
from weir_operator.loop.slow_nodes import NodeWatch
from weir_operator.rescale.status import AppStatus, FailedDeployment
from weir_operator.runtime.protocol import Deployments
from weir_policies.application_manager.arbitration import (
    OperatorState,
    Request,
    Verdicts,
    arbitrate,
)
from weir_policies.application_manager.restart_budget import RestartBudget, RestartTokens
from weir_policies.model.cost import price_per_hour
from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import NEEDED, ChangeKind, Observation
from weir_simulator.experiment import PathBound

SATURATED = 0.95
"""Busy share of the worst replica from which more records do not get through."""


class ApplicationManager:
    """Budgets and arbitration for one StreamApp."""

    def __init__(
        self,
        *,
        bound: float,
        statistic: str,
        paths: Sequence[PathBound] = (),
        pool_limits: Mapping[str, int],
        restarts: RestartBudget,
        shared: SharedRestarts | None = None,
        gate: TokenGate | None = None,
        nodes: NodeWatch | None = None,
    ) -> None:
        """Create it for an objective.

        Args:
            bound: Seconds, source to sink.
            statistic: What of the response time is bounded: `mean`, `p95` or `p99`.
            paths: Bounds of single sinks.
            pool_limits: Most replicas over all operators, by pool that has a limit.
            restarts: The restart budget.
            shared: The budget over all StreamApps; `None` where there is none.
            gate: The token bucket before the restart budget; `None` where there is none.
            nodes: Finds replicas that are to leave their nodes; `None` where none ever is.
        """
        self.sharing = BudgetSharing(bound=bound, statistic=statistic, paths=paths)
        """What of the objective each operator may use."""
        self.pool_limits = dict(pool_limits)
        self.restarts = restarts
        self._shared = shared
        self._statistic = statistic
        self._gate = gate
        self._nodes = nodes

    def note_output(self, *, mean: float, quantile: float, now: float) -> None:
        """Show the gate the response time, and learn of its tail; see `BudgetSharing`."""
        if self._gate is not None:
            self._gate.note(mean if self._statistic == "mean" else quantile, now)
        self.sharing.note_output(mean=mean, quantile=quantile)

    def share(self, dataflow: Dataflow, managers: Mapping[str, ObservedOperator]) -> Shares:
        """Return seconds of mean response time per operator; see `BudgetSharing`."""
        return self.sharing.share(dataflow, managers)

    def find_move(self, snapshot: Snapshot, status: AppStatus) -> Move | None:
        """Return which replica should leave its node, or `None`."""
        app = snapshot.app
        if self._nodes is None or app is None:
            return None
        return self._nodes.look(app, snapshot.replicas, last=status.rescale, now=snapshot.now)

    def rule(
        self,
        proposals: Mapping[str, Proposal],
        *,
        dataflow: Dataflow,
        current: Deployments,
        failed: tuple[FailedDeployment, ...],
        tokens: RestartTokens,
        now: float,
        guards: Sequence[Guard] = (),
        observations: Mapping[str, Observation] | None = None,
        move: Move | None = None,
    ) -> Ruling:
        """Grant or deny what the operators propose, and where nothing of it is done, a move.

        Args:
            proposals: One per operator that may change.
            dataflow: The job's graph.
            current: What runs.
            failed: Deployments that are not tried again.
            tokens: What is left of the restart budget.
            now: Unix seconds.
            guards: What forbids scaling now.
            observations: Of operators beside those that propose: a fixed one may be the bottleneck.
            move: A replica that is to leave its node.
        """
        seen = {name: each.observation for name, each in proposals.items()} | dict(
            observations or {}
        )
        wishes = {
            name: proposal
            for name, proposal in proposals.items()
            if proposal.kind is not ChangeKind.NOTHING
        }
        barred = _bar(wishes, guards)
        allowed = {name: wish for name, wish in wishes.items() if name not in barred}
        # Why the replica stays on its node; by score it competes with the wishes for a token.
        stays = None if move is None else refuse_change(ScalingDirection.ACROSS, guards)
        if self._gate is not None:
            asked = None if move is None or stays else move.request
            barred |= self._gate.refuse(allowed, asked, room=self._find_room(current))
            stays = stays or (None if move is None else barred.pop(move.replica, None))
            allowed = {name: wish for name, wish in wishes.items() if name not in barred}
        verdicts = self._arbitrate(allowed, seen, dataflow, current, tokens, now)
        sentences = {verdict.operator: verdict.reason for verdict in verdicts.verdicts} | barred
        granted, restart, tokens_left = verdicts.granted, verdicts.restart, verdicts.tokens
        urgent = any(allowed[name].decision.urgency >= NEEDED for name in granted)
        refusal = self._refuse_shared(urgent=urgent) if restart else None
        if refusal is not None:
            rescales = [name for name in granted if allowed[name].kind is ChangeKind.RESCALE]
            sentences |= dict.fromkeys(rescales, f"Denied: {refusal}")
            granted = tuple(name for name in granted if name not in rescales)
            restart, tokens_left = False, tokens
        target = {name: dict(counts) for name, counts in current.items()}
        for name in granted:
            wish = wishes[name]
            types = wish.observation.model.node_types
            target[name] = wish.decision.target.named(types)
        ruling = Ruling(
            verdicts=sentences,
            granted=granted,
            target=target,
            restart=restart,
            tokens=tokens_left,
        )
        known = find_failed(failed, current, target, now)
        if granted and known is not None:
            ruling = _deny_again(ruling, known, current, tokens, now)
        if self._gate is not None and ruling.restart:
            self._gate.pay([name for name in granted if wishes[name].kind is ChangeKind.RESCALE])
        return ruling if move is None else self._rule_move(move, stays, ruling, now)

    def _find_room(self, current: Deployments) -> dict[str, int]:
        """Return how many replicas may be added, by pool that has a limit."""
        room = dict(self.pool_limits)
        for counts in current.values():
            for pool, count in _per_pool(counts).items():
                if pool in room:
                    room[pool] = max(0, room[pool] - count)
        return room

    def _rule_move(self, move: Move, refusal: str | None, ruling: Ruling, now: float) -> Ruling:
        """Add to a ruling that a replica leaves its node, or why it does not."""
        name = move.request.operator
        paid = self._pay_one(name, move.request.score, ruling.tokens, now)
        if refusal is None and ruling.granted:
            refusal = f"Denied: {' and '.join(ruling.granted)} must change first"
        if refusal is None and not paid.restart:
            refusal = paid.verdicts[0].reason
        shared = self._refuse_shared(urgent=move.request.score >= NEEDED)
        if refusal is None and shared is not None:
            refusal = f"Denied: {shared}"
        own = ruling.verdicts.get(name)
        verdict = f"Granted: {move.reason}" if refusal is None else f"{refusal} ({move.reason})"
        verdicts = {**ruling.verdicts, name: verdict if own is None else f"{own}; {verdict}"}
        if refusal is not None:
            return replace(ruling, verdicts=verdicts)
        if self._gate is not None:
            self._gate.pay([move.replica])
        if self._nodes is not None:
            self._nodes.note(move)
        return replace(
            ruling,
            verdicts=verdicts,
            restart=True,
            tokens=paid.tokens,
            move=move,
            reason=move.reason,
        )

    def refuse_restart(self, tokens: RestartTokens, now: float) -> str | None:
        """Return why a restart that is needed must wait, one sentence; `None` where it need not."""
        paid = self._pay_one("", NEEDED, tokens, now)
        if not paid.restart:
            return paid.verdicts[0].reason
        shared = self._refuse_shared(urgent=True)
        return None if shared is None else f"Denied: {shared}"

    def buy(self, tokens: RestartTokens, now: float) -> RestartTokens | None:
        """Return the tokens after one more restart that is needed; `None` where none is left."""
        if self.refuse_restart(tokens, now) is not None:
            return None
        self.pay_shared()
        return tokens.take(self.restarts, now)

    def pay_shared(self) -> None:
        """Pay for a restart that begins, from the budget over all StreamApps."""
        if self._shared is not None:
            self._shared.take()

    def _refuse_shared(self, *, urgent: bool) -> str | None:
        """Return why the budget over all StreamApps does not bear a restart, or `None`."""
        return None if self._shared is None else self._shared.refuse(urgent=urgent)

    def _pay_one(self, name: str, urgency: float, tokens: RestartTokens, now: float) -> Verdicts:
        """Return what the restart budget says of one restart by itself."""
        request = Request(
            operator=name,
            kind=ChangeKind.RESCALE,
            current={},
            target={},
            urgency=urgency,
            saving=0.0,
        )
        return arbitrate(
            [request],
            operators={name: OperatorState(replicas={}, saturated=False)},
            pool_limits={},
            tokens=tokens,
            budget=self.restarts,
            now=now,
        )

    def _arbitrate(
        self,
        wishes: Mapping[str, Proposal],
        seen: Mapping[str, Observation],
        dataflow: Dataflow,
        current: Deployments,
        tokens: RestartTokens,
        now: float,
    ) -> Verdicts:
        requests = [
            Request(
                operator=name,
                kind=wish.kind,
                current=wish.observation.deployment.per_pool(wish.observation.model.node_types),
                target=wish.decision.target.per_pool(wish.observation.model.node_types),
                urgency=wish.decision.urgency,
                saving=price_per_hour(
                    wish.observation.deployment, wish.observation.model.node_types
                )
                - wish.decision.expectation.cost_per_hour,
            )
            for name, wish in wishes.items()
        ]
        states = {
            name: OperatorState(
                replicas=_per_pool(current.get(name, {})),
                saturated=name in seen and max(seen[name].utilisation, default=0.0) >= SATURATED,
                downstream=tuple(edge.target for edge in dataflow.out_of(name)),
            )
            for name in dataflow.operators
        }
        return arbitrate(
            requests,
            operators=states,
            pool_limits=self.pool_limits,
            tokens=tokens,
            budget=self.restarts,
            now=now,
        )


def describe_failed(known: FailedDeployment, now: float) -> str:
    """Return why a deployment that failed is not gone to, one sentence."""
    return (
        "Denied: this deployment failed, and Weir does not try it again for "
        f"{(known.until - now) / 60:.0f} min ({known.reason})"
    )


def _deny_again(
    ruling: Ruling,
    known: FailedDeployment,
    current: Deployments,
    tokens: RestartTokens,
    now: float,
) -> Ruling:
    """Return the ruling without what it grants, which leads to a deployment that failed."""
    return replace(
        ruling,
        verdicts={
            **ruling.verdicts,
            **dict.fromkeys(ruling.granted, describe_failed(known, now)),
        },
        granted=(),
        target=current,
        restart=False,
        tokens=tokens,
    )


def _bar(wishes: Mapping[str, Proposal], guards: Sequence[Guard]) -> dict[str, str]:
    """Return why a guard denies a wish, by operator."""
    barred = {}
    for name, wish in wishes.items():
        sentence = refuse_target(wish.observation, wish.decision.target, guards)
        if sentence is not None:
            barred[name] = sentence
    return barred


def _per_pool(counts: Mapping[str, int]) -> dict[str, int]:
    pools: dict[str, int] = {}
    for node_type, count in counts.items():
        pool = node_type.split("/", 1)[0]
        pools[pool] = pools.get(pool, 0) + count
    return pools

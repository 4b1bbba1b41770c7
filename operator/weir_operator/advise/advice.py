"""What Weir would do with an external job, and what that would cost. Pure.

One function computes both costs: the CPU of every TaskManager and of the JobManager, at the prices
of their pools. Today's cost is that of the running pods. Under Weir, each operator has its own
TaskManagers. That costs more for a job whose operators are all nearly idle, because each needs at
least one TaskManager; the figures of the advice show it. Memory has no price; the advice gives the
memory of the pods beside the cost.

Weir advises only what it would also do: nothing that a drain or the measured work forbids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_operator.advise.view import ExternalJob, PodPlace
from weir_operator.loop.bounds import WORKING_OFF, cost_per_hour, prices, refuse_target
from weir_operator.loop.decide import ObservedOperator
from weir_operator.loop.tick import Tick
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.pools import price_of
from weir_operator.streamapp.quantities import Cpu
from weir_policies.kernels.wording import format_money, format_time

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What one tick advises for the whole job."""

    cost_now: float
    """Currency per hour, of the pods that run."""
    cost_advised: float
    """Currency per hour, under Weir."""
    memory_now: float
    """Bytes, of the pods that run; NaN where one does not say."""
    memory_advised: float
    """Bytes, under Weir."""
    response_time: float
    """Seconds from source to sink that the advised deployment should give; NaN if unknown."""

    @property
    def message(self) -> str:
        """The bill and the forecast in one sentence; of the traffic of now, so nothing a day."""
        saved = self.cost_now - self.cost_advised
        way = "less" if saved >= 0 else "more"
        parts = [
            f"With Weir {format_money(self.cost_advised)} per hour instead of "
            f"{format_money(self.cost_now)}, {format_money(abs(saved))} {way} at the "
            "current traffic"
        ]
        if not math.isnan(self.memory_now):
            parts.append(
                f"{_format_memory(self.memory_advised)} of memory instead of "
                f"{_format_memory(self.memory_now)} (not included in the cost)"
            )
        if not math.isnan(self.response_time):
            parts.append(f"expected response time {format_time(self.response_time)}")
        return "; ".join(parts)


def cost_of_pods(app: StreamApp, places: Sequence[PodPlace]) -> float:
    """Return what pods cost, currency per hour."""
    return sum(
        price_of(world.pool_named(app, place.pool), cores=place.cores, memory=place.memory)
        for place in places
    )


def memory_of_pods(places: Sequence[PodPlace]) -> float:
    """Return the bytes of memory that pods take; NaN where one of them does not say."""
    return sum(place.memory for place in places)


def pods_under_weir(app: StreamApp, deployments: Deployments) -> tuple[PodPlace, ...]:
    """Return the pods that Weir would run the job in: a TaskManager for each replica."""
    job_manager = app.spec.flink.job_manager
    pods = [
        PodPlace(
            pool=job_manager.pool or app.spec.node_pools[0].name,
            cores=job_manager.cpu.cores,
            memory=job_manager.memory.bytes,
        )
    ]
    for counts in deployments.values():
        for node_type, count in counts.items():
            pool, _, size = node_type.partition("/")
            memory = world.pool_named(app, pool).memory.bytes
            pods += [PodPlace(pool=pool, cores=Cpu(size).cores, memory=memory)] * count
    return tuple(pods)


def share_cost(app: StreamApp, job: ExternalJob, paid: float) -> dict[str, float]:
    """Return what a replica costs today by node type, currency per hour.

    Vertices share slots, so at their pools' prices the replicas would be paid for many times over.
    All are scaled by one factor, with which they cost together what the pods do.
    """
    listed = prices(app)
    whole = cost_per_hour(job.deployments, listed, job_manager=0.0)
    return {name: price * paid / whole for name, price in listed.items()}


def advise(
    tick: Tick,
    job: ExternalJob,
    managers: Mapping[str, ObservedOperator],
    *,
    app: StreamApp,
    pods: Sequence[PodPlace],
) -> Advice | None:
    """Return what a tick advises, `None` where it held; what is not decided on stays as it is."""
    if tick.held or tick.snapshot.dataflow is None:
        return None
    # What people forbid now does not change what is advised.
    guards = [each for each in tick.guards if each is WORKING_OFF]
    targets: dict[str, Mapping[str, int]] = {}
    times: dict[str, float] = {}
    for name, manager in managers.items():
        types = manager.model.node_types
        proposal = tick.proposals.get(name)
        if proposal is not None:
            observed, decision = proposal.observation, proposal.decision
            refused = refuse_target(observed, decision.target, guards) is not None
            target = observed.deployment if refused else decision.target
            expected = decision.expectation.response_time
            targets[name] = target.named(types)
            times[name] = observed.response_time if refused else expected
        elif manager.fixed is not None:
            targets[name], times[name] = manager.fixed.named(types), 0.0
        else:
            targets[name], times[name] = job.deployments[name], math.nan
    advised = pods_under_weir(app, targets)
    response = tick.snapshot.dataflow.response_time(times)
    return Advice(
        cost_now=cost_of_pods(app, pods),
        cost_advised=cost_of_pods(app, advised),
        memory_now=memory_of_pods(pods),
        memory_advised=memory_of_pods(advised),
        response_time=response,
    )


def _format_memory(size: float) -> str:
    """Return an amount of memory such as `512 MiB` or `1.5 GiB`."""
    return f"{size / GIB:,.3g} GiB" if size >= GIB else f"{size / MIB:,.0f} MiB"

"""What Weir needs to know of a job to submit it: a value, made from the StreamApp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weir_operator.flink.agent import PINNED
from weir_operator.flink.programs import Program
from weir_operator.rescale.replicas import parallelism
from weir_operator.rescale.status import expected_node_time
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.revision import Revision

MARGIN = 1.5
"""How many times the expected wait for a node Weir waits: clouds are slow at times."""
FULL_FOR = 600.0
"""Seconds for which a pool without room counts as full."""
FLOW_DEADLINE = 30.0
"""Seconds, for jobs that start no Python processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """How the job is submitted."""

    entry_class: str | None
    """`None` takes the jar's own main class."""
    arguments: tuple[str, ...]
    """The job's own arguments."""
    parallelism_arguments: Mapping[str, str]
    """Program argument per operator, such as `--weir.parallelism.match`."""
    max_parallelism: int
    whole_job: str | None = None
    """Name of the single operator of a job that was not written for Weir."""
    vertices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each operator is made of, as Weir's agent names vertices; empty if the manifest names
    operators of the program's own, or the whole job is one."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """What Weir's agent is told of the job's keys. No part of a revision: it holds from the next
    start on."""

    @property
    def pinned_groups(self) -> tuple[str, ...]:
        """Slot sharing groups of the operators whose graph is asked for."""
        return tuple(self.vertices or self.parallelism_arguments)

    @property
    def only_operator(self) -> str | None:
        """The operator that stands for all slot sharing groups; `None` where each is one."""
        return None if self.vertices else self.whole_job

    def of(self, revision: Revision | None) -> JobSpec:
        """Return how the job is submitted at a revision; `None` is as in the manifest now."""
        if revision is None:
            return self
        return replace(
            self,
            entry_class=revision.entry_class,
            arguments=revision.arguments,
            parallelism_arguments=revision.parallelism_arguments,
            whole_job=revision.whole_job,
            vertices=revision.vertices,
        )

    def program(self, deployments: Deployments, *, by_agent: bool = False) -> Program:
        """Return the program as it runs at these deployments.

        One that Weir's agent pins (`by_agent`) knows nothing of Weir.
        """
        return Program(
            entry_class=self.entry_class,
            arguments=self.program_arguments(deployments, by_agent=by_agent),
            configuration=self.configuration(deployments, by_agent=by_agent),
            parallelism=self.default_parallelism(deployments),
        )

    def program_arguments(
        self, deployments: Deployments, *, by_agent: bool = False
    ) -> tuple[str, ...]:
        """Return the arguments with which the job runs at these deployments."""
        if by_agent or self.whole_job is not None:
            return self.arguments
        sized = tuple(
            part
            for operator, replicas in sorted(parallelism(deployments).items())
            for part in (self.parallelism_arguments[operator], str(replicas))
        )
        return (*self.arguments, *sized, "--weir.maxParallelism", str(self.max_parallelism))

    def configuration(self, deployments: Deployments, *, by_agent: bool = False) -> dict[str, str]:
        """Return the keys by which helper or agent learn the same; a whole job has none."""
        if self.whole_job is not None and not by_agent:
            return {}
        sizes = {
            f"weir.parallelism.{operator}": str(replicas)
            for operator, replicas in parallelism(deployments).items()
        }
        if not by_agent:
            return sizes
        joined = {
            f"weir.vertices.{operator}": " ".join(names)
            for operator, names in self.vertices.items()
            if names != (operator,)
        }
        return {**sizes, **joined, **self.keys, **PINNED}

    def default_parallelism(self, deployments: Deployments) -> int | None:
        """Return the parallelism of a job that takes none by argument, else `None`."""
        if self.whole_job is None or self.vertices:
            return None
        return sum(parallelism(deployments).values())


@dataclass(frozen=True, kw_only=True, slots=True)
class RescaleSettings:
    """How long each step may take, in seconds, and how state travels."""

    via: str = "Auto"
    """`Auto`: savepoint, and past its deadline the newest checkpoint. `Savepoint`: wait for it.
    `Checkpoint`: cancel and resume from the newest checkpoint at once."""
    savepoint_deadline: float = 10.0
    """A savepoint takes 0.1-0.4 s, 2.3 s at twice the capacity; past this something is wrong."""
    savepoint_limit: float = 3600.0
    """Where there is no checkpoint to go by, Flink's own time limit of a savepoint ends it; this
    one is for a Flink that does not."""
    start_deadline: float = 60.0
    """From starting TaskManagers until all are registered, while the job runs."""
    submit_deadline: float = 30.0
    """From submission until every task runs."""
    flow_deadline: float = FLOW_DEADLINE
    """From then until a record passes, where records wait for the job or nobody knows."""
    provisioning: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a new node of a pool may take, where a node autoscaler adds them."""
    keep_savepoints: int = 3

    @property
    def longest_change(self) -> float:
        """Seconds until all replicas of a change run, if each step takes as long as it may."""
        nodes = max(self.provisioning.values(), default=0.0)
        return nodes + self.start_deadline + self.savepoint_deadline + self.submit_deadline

    def node_patience(self, pool: str, known: Mapping[str, Sequence[float]]) -> float:
        """Return seconds until replicas without room in a pool are given up; 0 adds no wait.

        At least what the user states; longer if nodes have taken nearly as long before (`known`,
        seconds by pool). A pool for which nothing is stated gets no nodes.
        """
        stated = self.provisioning.get(pool, 0.0)
        times = known.get(pool, ())
        return max(stated, MARGIN * expected_node_time(times)) if stated and times else stated

    def full_for_pools(self, pools: Iterable[str]) -> float:
        """Return seconds for which these pools count as full after a job that is down left them.

        Where nodes are added, the job that runs again may ask for one at once, and wait for it.
        """
        grow = all(self.provisioning.get(pool, 0.0) > self.start_deadline for pool in pools)
        return self.start_deadline if grow else FULL_FOR

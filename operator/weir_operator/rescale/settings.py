"""What Weir needs to know of a job to submit it: a value, made from the StreamApp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weir_operator.flink.agent import DEFAULT_PARALLELISM
from weir_operator.rescale.replicas import parallelism
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.revision import Revision


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """How the job is submitted."""

    entry_class: str | None
    """`None` takes the jar's own main class."""
    arguments: tuple[str, ...]
    """The job's own arguments."""
    parallelism_arguments: Mapping[str, str]
    """Program argument per operator, `--weir.parallelism.match` unless the job names its own."""
    max_parallelism: int
    whole_job: str | None = None
    """Name of the single operator of a job that was not written for Weir."""

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
        )

    def program_arguments(
        self, deployments: Deployments, *, by_agent: bool = False
    ) -> tuple[str, ...]:
        """Return the arguments with which the job runs at these deployments.

        Args:
            deployments: Its replicas.
            by_agent: Weir's agent pins it: the program knows nothing of Weir.
        """
        if self.whole_job is not None or by_agent:
            return self.arguments
        sized = tuple(
            part
            for operator, replicas in sorted(parallelism(deployments).items())
            for part in (self.parallelism_arguments[operator], str(replicas))
        )
        return (*self.arguments, *sized, "--weir.maxParallelism", str(self.max_parallelism))

    def configuration(self, deployments: Deployments, *, by_agent: bool = False) -> dict[str, str]:
        """Return the keys by which helper or agent learn the same; a whole job has none.

        Args:
            deployments: Its replicas.
            by_agent: Weir's agent pins it.
        """
        if self.whole_job is not None:
            return {}
        sizes = {
            f"weir.parallelism.{operator}": str(replicas)
            for operator, replicas in parallelism(deployments).items()
        }
        if not by_agent:
            return sizes
        return {**sizes, "weir.pin": "true", "parallelism.default": str(DEFAULT_PARALLELISM)}

    def default_parallelism(self, deployments: Deployments) -> int | None:
        """Return the parallelism of a job that takes none by argument, else `None`."""
        return None if self.whole_job is None else sum(parallelism(deployments).values())


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
    keep_savepoints: int = 3
    failed_for: float = 1800.0
    """Seconds for which a deployment that did not hold is not tried again."""
    full_for: float = 600.0
    """Seconds for which a pool without room counts as full."""
    back_attempts: int = 5
    """Submissions on the way back before the change ends as failed, to be recovered later."""

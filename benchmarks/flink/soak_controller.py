"""`weir local` with a policy that never stays: `benchmarks.flink.soak_controller MANIFEST STATE`.

Run by the benchmark `soak` as a process of its own, because it is this process that is measured.
Everything is as `weir local` has it (loops, decision records, one JVM for each replica) but for the
policy and the scraping. Scraped is four times as often, because rates need several samples and the
policy is asked every second; and samples are kept for five minutes, not fifteen, so that memory can
be flat within a run. Records of the run go to the standard output, a line each.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from pathlib import Path

import structlog

from weir_operator.local import run as local_run
from weir_operator.local.run import LocalRun, run_local
from weir_operator.loop.run_record import Record, to_json_line
from weir_operator.metrics.direct import DirectSource
from weir_policies import registry
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.staying import Memoryless
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Decision, Neighbourhood, Observation

POLICY = "to-and-fro"
SCRAPE_EVERY = 0.25
"""Seconds."""
SAMPLES_KEPT = 300.0
"""Seconds; a controller on a cluster keeps them for ten minutes."""


class ToAndFro(Memoryless):
    """Goes from one replica to two and back, at every interval in which it is asked."""

    def decide(self, observation: Observation) -> Decision:
        """Choose the other deployment, of the first node type."""
        wanted = 2 if observation.deployment.size == 1 else 1
        others = len(observation.model.node_types) - 1
        target = Deployment((wanted, *(0,) * others))
        return explain_rule(observation, target, f"it is the turn of {wanted}")


def main(manifest: Path, state: Path) -> None:
    """Run until SIGINT."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    own = registry.Registered(lambda rng, values: ToAndFro(), Neighbourhood.ONE)
    registry.POLICIES = {**registry.POLICIES, POLICY: own}
    # By name: types hold what a module only imports, or never changes, for constant.
    setattr(local_run, "DirectSource", partial(DirectSource, period=SCRAPE_EVERY))  # noqa: B010
    setattr(local_run, "RETENTION", SAMPLES_KEPT)  # noqa: B010
    run = LocalRun(manifest=manifest, state=state, cache=state / "cache", policy=POLICY)

    def show(record: Record) -> None:
        print(to_json_line(record), flush=True)

    asyncio.run(run_local(run, show=show))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Hand-set and tuned weights, the Flink autoscaler and a static peak, on jobs that burn CPU.

Real Flink, two jobs (`trips`, and `hotitems`, Nexmark's query 5 with its windows in RocksDB), two
traces. The replicas' CPU is limited by cgroup quotas. A call makes one repeat of one job and trace:
`LIVE_APP` (trips), `LIVE_TRACE` (taxi) and `LIVE_REPEAT` (1) choose others, and the figures are of
all runs so far, which `build/benchmarks/live` keeps. Arms of a repeat have equal arrivals; which of
them runs first changes with it.

Weir has run on the ten hours before, and tuned for the week before in the simulator that was
fitted meanwhile, once for a job and trace. Both of its arms begin with what it measured then and
with a policy that has been through that week in the simulator, with its own weights; where Weir
found none that it expects to be better, the tuned arm is left out. Cost is the CPU and memory that
is requested, JobManager included. An interval is a violation where records came out later than the
bound after they were due, so what waits at the source counts, or where nothing came out while
records waited.
"""

from __future__ import annotations

from rich.console import Console

from benchmarks.choices import choose
from benchmarks.figures import Figure, at_least
from benchmarks.live_apps import APPS, BEGIN, Arm
from benchmarks.live_runs import is_tuned, learn, read_outcomes, run_arm
from benchmarks.live_verdict import figures_of, tabulate
from weir_operator.flink.jars import build_example

ABOUT = "tuned and hand-set weights, flink-autoscaler, static peak: jobs that burn CPU under quotas"
DURATION = "25 min"


def run() -> list[Figure]:
    """Make one repeat of one job and trace; return the figures of all runs so far.

    Raises:
        BenchmarkError: A variable names no job, no trace, or no repeat, or no fit was good.
        QuotaError: CPU cannot be limited on this machine.
    """
    app = APPS[choose("LIVE_APP", "trips", list(APPS))]
    trace = choose("LIVE_TRACE", "taxi", list(BEGIN))
    repeat = int(choose("LIVE_REPEAT", "1", [str(number) for number in range(1, 10)]))
    build_example(app.name)
    learned = learn(app, trace)
    arms = [arm for arm in Arm if arm is not Arm.TUNED or is_tuned(learned)]
    first = repeat % len(arms)
    for arm in (*arms[first:], *arms[:first]):
        run_arm(app, trace, repeat, arm, learned=learned)
    outcomes = read_outcomes()
    Console().print(tabulate(outcomes))
    tuned = at_least(
        figure=f"{app.name} on {trace}: tunings in force after learning",
        value=int(is_tuned(learned)),
        unit="",
        limit=1,
    )
    return [tuned, *figures_of(outcomes)]

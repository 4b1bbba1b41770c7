"""The Application Manager's slow loop beside a real job: fitted, tuned, tried, kept or taken back.

`weir local` runs the example trips on a real Flink, with the slow loop every four minutes and not
every hour, and everything else as shipped: the fit in a thread, the tuning in a process of its own
beside the job, the trial by what is measured. So the figures say that the machinery works and what
it takes beside a job; what tuning saves is measured by `tune`, on days of traffic.
"""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.policies.live.night import demo_manifest, run_night
from benchmarks.results import BUILD
from weir_operator.loop.run_record import RecordedRun
from weir_operator.tuning.store import TUNINGS, Standing, Version, read_tunings
from weir_operator.wiring.loops import state_directory

ABOUT = "the slow loop beside the example trips on a real Flink: fit, tuning, trial and its end"
DURATION = "16 min"

FOLDER = BUILD / "application-manager"
NAME = "tuned-beside"
SECONDS = 900.0
INTERVAL = "4m"
SLOT_SECONDS = "10"
"""A line of the trace lasts so long, so that the night fills the run."""
SCALE = "0.2"
"""Of its rates."""
WORK = {"match": "150", "aggregate": "100"}
"""Milliseconds of work per record at speed 1, five times those of the night in five minutes."""
BOUND = "2500ms"
"""Five times its bound."""


def run() -> list[Figure]:
    """Run the job once, and tell what the slow loop did."""
    done = run_night(NAME, manifest(), FOLDER, seconds=SECONDS)
    tunings = read_tunings(state_directory(FOLDER / "state", NAME) / TUNINGS)
    versions = () if tunings is None else tunings.versions
    return figures(done, versions)


def manifest() -> dict[str, Any]:
    """Return the StreamApp of the benchmarks' night, with the default policy."""
    app = demo_manifest()
    spec = app["spec"]
    del spec["operatorManager"]["policy"]
    spec["applicationManager"]["interval"] = INTERVAL
    spec["objective"]["responseTime"]["bound"] = BOUND
    arguments = spec["flink"]["job"]["args"]
    for name, milliseconds in WORK.items():
        arguments[arguments.index(f"--service.{name}-ms") + 1] = milliseconds
    arguments += ["--slot-seconds", SLOT_SECONDS, "--scale", SCALE]
    return app


def figures(done: RecordedRun, versions: tuple[Version, ...]) -> list[Figure]:
    """Return what the slow loop did, and whether the job felt it."""
    judged = [each for each in versions if each.standing is not Standing.ON_TRIAL]
    kept = [
        each
        for each in judged
        if each.standing in (Standing.KEPT, Standing.REPLACED)
        and each.trial.intervals >= each.forecast.intervals
    ]
    tried = sum(each.trial.intervals for each in versions)
    late = sum(each.trial.late for each in versions)
    return [
        at_least("tunings put in force", len(versions), 1),
        at_least("trials brought to an end", len(judged), 1),
        at_least("tunings kept", len(kept), 1),
        at_most("tunings that failed", _count(done, "TuningFailed"), 0),
        at_most("ticks that failed", _count(done, "TickFailed"), 0),
        Figure("tunings taken back", _count(done, "TuningRolledBack")),
        Figure("intervals on trial", tried),
        Figure("intervals on trial over the bound", late),
    ]


def _count(done: RecordedRun, reason: str) -> int:
    """Return how many events of the run have this reason."""
    return sum(event.message.startswith(f"{reason}:") for event in done.events)

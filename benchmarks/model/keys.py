"""How well the agent's counts tell what the fullest replica gets, and what they cost.

Records go through Flink's own partitioner in a JVM with the agent. The truth is the law from which
their keys are drawn. The share of the fullest replica is compared at each parallelism from 1 to 20;
the keys that are named, with the heaviest of the law. What the hook costs is measured in one thread
that sends with and without it in turns of a second, and takes the median of both: as quickly as a
core can, where a record is no more than its key, its channel and eight bytes, so that the hook is
as large a part as it can be; and at 10,000 records/s, as a part of the core.

What it is worth is simulated: the rate of a job of which one key brings 30 % rises threefold. The
planner's price is compared with that of the best fixed deployment in hindsight, which keeps the
bound in all intervals at both rates.
"""

from __future__ import annotations

import json
import subprocess
import tempfile

import numpy as np

from benchmarks.figures import Figure, Row, at_most
from weir_operator.flink.agent import build_agent
from weir_operator.flink.jars import JARS, REPOSITORY, build_jar, find_java, flink_home
from weir_operator.metrics.keys import read_keys
from weir_policies.model.arrays import Floats
from weir_policies.model.keys import fullest_share, shares_of_groups, zipf_shares
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate

ABOUT = "error of the fullest replica's share under uneven keys, cost of counting keys"
DURATION = "1 min"

LAWS = ("zipf 0.8", "zipf 1.0", "zipf 1.2", "share 0.3")
KEYS, GROUPS = 10_000, 720
"""As in `jobs/CountKeys.java`."""
MAX_REPLICAS = 12
STEP = {
    "operators": [
        {
            "name": "op", "serviceRate": 100, "maxReplicas": MAX_REPLICAS,
            "keys": {"shares": [0.3]},
        },
    ],
    "nodeTypes": [{"name": "small", "speedup": 1.0, "price": 1.0}],
    "objective": {"responseTime": "100ms"},
    "world": {"queues": True, "downtime": "5s"},
}  # fmt: skip
SECONDS, TURNS = 4, 9
"""For each law, of which the first is not counted; for each cost."""
PER_SECOND = 10_000


def run() -> list[Figure | Row]:
    jar = build_jar([REPOSITORY / "benchmarks/jobs/CountKeys.java"], JARS / "count-keys.jar")
    libraries = sorted((flink_home() / "lib").glob("*.jar"))
    done = subprocess.run(
        [
            find_java(), f"-javaagent:{build_agent()}", "-Xmx256m",
            "-cp", ":".join(map(str, (jar, *libraries))), "CountKeys",
            str(SECONDS), str(TURNS), *(word for law in LAWS for word in law.split()),
        ],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    counted = {words[1]: words[2] for words in lines if words[0] == "law"}
    costs = {words[1]: (float(words[2]), float(words[3])) for words in lines if words[0] == "cost"}
    figures: list[Figure | Row] = []
    for law in LAWS:
        figures += _judge(law, counted[law])
    quick_off, quick_on = costs["quick"]
    slow_off, slow_on = costs["slow"]
    return [
        *figures,
        at_most(
            figure="cost of counting at 10,000 records/s, of a core",
            value=(slow_on - slow_off) * PER_SECOND * 1e-9 * 100, unit="%", limit=1,
        ),
        at_most(
            figure="cost of counting as quickly as a core sends, of the CPU to send a record",
            value=(quick_on / quick_off - 1) * 100, unit="%", limit=3,
        ),
        Figure(
            figure="to send a record without it: its key, its channel and eight bytes",
            value=quick_off, unit="ns",
        ),
        *_simulate_step(),
    ]  # fmt: skip


def _simulate_step() -> list[Figure]:
    """Return what the planner makes of a rate that rises threefold, with and without the keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as trace:
        trace.write("".join(f"{rate}\n" for rate in [80] * 300 + [240] * 700))
        trace.flush()

        def experiment(**fields: object) -> Experiment:
            return Experiment.model_validate_json(
                json.dumps(STEP | {"trace": {"file": trace.name}} | fields)
            )

        known = simulate(experiment(), seed=1)
        unknown = simulate(experiment(believed={"keys": False}), seed=1)
        fixed = [
            simulate(experiment(initial={"small": replicas}), seed=1, policy="hold")
            for replicas in range(1, MAX_REPLICAS + 1)
        ]
    best = min(each.resources for each in fixed if each.violations == 0)
    return [
        at_most(
            figure="rate threefold, one key 30 %: price of the planner over the best fixed one",
            value=known.resources / best, unit="", limit=1.1,
        ),
        at_most(
            figure="rate threefold, one key 30 %: changes",
            value=round(known.reconfigurations * 1000 / 100), unit="", limit=1,
        ),
        Figure(
            figure="rate threefold, one key 30 %: intervals over the bound",
            value=known.violations, unit="%",
        ),
        Figure(
            figure="the same where keys are taken as even: intervals over the bound",
            value=unknown.violations, unit="%",
        ),
    ]  # fmt: skip


def _judge(law: str, text: str) -> list[Figure]:
    """Return how far what was counted under a law is from the law."""
    truth = _shares_of(law)
    by_group = shares_of_groups(truth, GROUPS)
    [found] = read_keys([text], {text.split(" ")[0]}).values()
    errors = [
        abs(fullest_share(found.by_group, size) / fullest_share(by_group, size) - 1)
        for size in range(1, 21)
    ]
    heaviest = [key for key in np.argsort(-truth, kind="stable")[:5] if truth[key] > 0.01]
    named = [int(key.name.removeprefix("=")) for key in found.heavy]
    missed = [key for key in heaviest if key not in named]
    return [
        at_most(
            figure=f"{law}: largest error of the fullest replica's share, p = 1 to 20",
            value=100 * max(errors), unit="%", limit=5,
        ),
        at_most(
            figure=f"{law}: keys missed, of the {len(heaviest)} heaviest above 1 %",
            value=len(missed), unit="keys", limit=0,
        ),
    ]  # fmt: skip


def _shares_of(law: str) -> Floats:
    kind, parameter = law.split()
    if kind == "zipf":
        return zipf_shares(float(parameter), KEYS)
    rest = (1 - float(parameter)) / (KEYS - 1)
    return np.array([float(parameter), *[rest] * (KEYS - 1)])

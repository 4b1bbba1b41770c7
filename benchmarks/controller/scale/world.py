"""Flink jobs that are only simulated: JobManagers' REST and reporters, in one process.

Every job is a chain of operators with one replica each; what a JobManager answers and what the
reporters count follows from the job's number and the time alone, in Flink's words and names. A
job's rate swings by a third about its own mean, each at its own pace.

    /flink/ADDRESS/...   the REST interface of the JobManager that the controller has under ADDRESS
    /metrics/NUMBER      all reporters of a job on one page
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Iterator
from functools import cache

from aiohttp import web

from weir_operator.flink.programs import JAR
from weir_operator.metrics import names
from weir_operator.runtime.pods.configuration import JAR_ID

OPERATORS = tuple(f"op{place}" for place in range(10))
"""Of each job, from source to sink."""
POOL, SIZE = "small", "1"
SERVICE_MEAN = 0.01
"""Seconds."""
AGE = 0.02
"""Seconds since the event time, at each operator."""
BUCKETS_MS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
SWING = 0.33
"""Part of its mean by which a rate swings."""


def name_of(number: int) -> str:
    return f"app-{number:04}"


def namespace_of(number: int) -> str:
    """Return the StreamApp's namespace: a team has some dozens of jobs."""
    return f"team-{number // 50:02}"


def job_of(number: int) -> str:
    """Return the job's id, which holds its number."""
    return f"{number:032x}"


def pod_of(number: int, operator: str) -> str:
    """Return the name of the one TaskManager of an operator."""
    return f"{name_of(number)}-{operator}"


def records_until(number: int, now: float) -> float:
    """Return how many records a job has taken in by `now`: the integral of its rate."""
    mean, period = 30.0 + number % 20, 600.0 + 7.0 * (number % 90)
    turn = 2 * math.pi / period
    return mean * (now % 1e6 + SWING / turn * (1 - math.cos(turn * (now % 1e6) + number)))


class Jobs:
    def application(self) -> web.Application:
        application = web.Application(client_max_size=2**26)
        application.router.add_get("/metrics/{number}", self.metrics)
        application.router.add_get("/flink/{address}/jars", self.jars)
        application.router.add_post("/flink/{address}/jars/upload", self.upload)
        application.router.add_post("/flink/{address}/jars/{jar}/plan", self.plan)
        application.router.add_delete("/flink/{address}/jars/{jar}", self.delete)
        application.router.add_get("/flink/{address}/jobs/overview", self.overview)
        application.router.add_get("/flink/{address}/jobs/{job}", self.job)
        application.router.add_get("/flink/{address}/jobs/{job}/vertices/{vertex}", self.vertex)
        application.router.add_get("/flink/{address}/jobs/{job}/checkpoints", self.checkpoints)
        application.router.add_get("/flink/{address}/jobs/{job}/exceptions", self.exceptions)
        return application

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer as all reporters of a job."""
        number = int(request.match_info["number"])
        records = records_until(number, time.time())
        lines = (f"{series} {factor * records:.3f}\n" for series, factor in _series(number))
        return web.Response(text="".join(lines))

    async def jars(self, request: web.Request) -> web.Response:
        """List the job's jar, and the one that Weir uploads for a moment to read the job's plan."""
        return web.json_response({"files": [{"id": JAR_ID}, {"id": JAR}]})

    async def upload(self, request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({"filename": f"/tmp/flink-web-upload/{JAR}"})

    async def plan(self, request: web.Request) -> web.Response:
        """Answer as Weir's own program does, by an exception that says what the job consists of."""
        await request.read()
        return web.json_response({"errors": [_GRAPH]}, status=400)

    async def delete(self, request: web.Request) -> web.Response:
        return web.json_response({})

    async def overview(self, request: web.Request) -> web.Response:
        """Answer the cheapest question."""
        return web.json_response({"jobs": []})

    async def job(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "jid": request.match_info["job"],
                "name": "chain",
                "state": "RUNNING",
                "start-time": 1_700_000_000_000,
                "timestamps": {"RUNNING": 1_700_000_000_000},
                "vertices": [
                    {
                        "id": f"v-{operator}",
                        "name": operator,
                        "parallelism": 1,
                        "maxParallelism": 128,
                        "tasks": {"RUNNING": 1},
                    }
                    for operator in OPERATORS
                ],
                "plan": {"nodes": _PLAN},
            }
        )

    async def exceptions(self, request: web.Request) -> web.Response:
        """Answer that the job has never failed."""
        return web.json_response({"exceptionHistory": {"entries": [], "truncated": False}})

    async def vertex(self, request: web.Request) -> web.Response:
        """Tell where the one subtask of a vertex runs."""
        number = int(request.match_info["job"], 16)
        operator = request.match_info["vertex"].removeprefix("v-")
        task_manager = pod_of(number, operator)
        subtask = {
            "subtask": 0,
            "status": "RUNNING",
            "taskmanager-id": task_manager,
            "status-duration": {"RUNNING": 86_400_000},
        }
        return web.json_response({"subtasks": [subtask]})

    async def checkpoints(self, request: web.Request) -> web.Response:
        """Answer as a job that has taken none yet."""
        return web.json_response(
            {
                "counts": {"completed": 0, "failed": 0, "in_progress": 0},
                "latest": {"completed": None, "savepoint": None, "restored": None},
                "history": [],
            }
        )


_PLAN = [
    {
        "id": f"v-{operator}",
        "inputs": [{"id": f"v-{OPERATORS[place - 1]}", "ship_strategy": "HASH"}] if place else [],
    }
    for place, operator in enumerate(OPERATORS)
]

_GRAPH = "\n".join(
    f"weir-graph {line}"
    for line in (
        "begin",
        *(f"slot {operator} false" for operator in OPERATORS),
        *(f"stream {source} {target} 1" for source, target in itertools.pairwise(OPERATORS)),
        "pins-itself",
        "end",
    )
)


@cache
def _series(number: int) -> tuple[tuple[str, float], ...]:
    """Return a job's series as they stand on its page, and what each counts per record."""
    return tuple(
        (name + "{" + ",".join(f'{key}="{text}"' for key, text in labels.items()) + "}", factor)
        for name, labels, factor in list_series(number)
    )


def list_series(number: int) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield a job's series: name, labels, and what each counts per record."""
    app = names.mangle(f"{namespace_of(number)}/{name_of(number)}")
    job = {"weir_app": app, "job_id": job_of(number)}
    for operator in OPERATORS:
        machine = {
            "weir_app": app,
            "weir_operator": operator,
            "weir_pool": POOL,
            "tm_id": names.mangle(pod_of(number, operator)),
        }
        task = machine | {"job_id": job["job_id"], "task_id": f"v-{operator}", "subtask_index": "0"}
        function = task | {"operator_id": f"v-{operator}"}
        yield names.GC_MS, machine, 0.01
        for name, factor in _counted(operator).items():
            yield name, function, factor
        if operator == OPERATORS[-1]:
            mean_ms = 2e3 * AGE * len(OPERATORS)
            for bound in BUCKETS_MS:
                below = -math.expm1(-bound / mean_ms)
                yield names.LATENCY_BUCKET, function | {"le": f"{bound}"}, below


def _counted(operator: str) -> dict[str, float]:
    """Return what the function of an operator counts per record."""
    is_source = operator == OPERATORS[0]
    counted = {
        names.RECORDS_IN: 0.0 if is_source else 1.0,
        names.RECORDS_OUT: 1.0,
        names.BUSY_MS: 1e3 * SERVICE_MEAN,
        names.BACK_PRESSURED_MS: 0.0,
    }
    if is_source:
        return counted | {names.PENDING_RECORDS: 0.0}
    counted |= {
        names.SERVICE_N: 1.0,
        names.SERVICE_US: 1e6 * SERVICE_MEAN,
        names.SERVICE_US2: 2e12 * SERVICE_MEAN**2,
        names.AGE_N: 1.0,
        names.AGE_US: 1e6 * AGE,
    }
    if operator == OPERATORS[-1]:
        mean = 2 * AGE * len(OPERATORS)
        counted |= {
            names.LATENCY_N: 1.0,
            names.LATENCY_US: 1e6 * mean,
        }
    return counted


if __name__ == "__main__":
    web.run_app(
        Jobs().application(), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None
    )

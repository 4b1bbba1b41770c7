"""What the neighbours of `neighbours` do, one hostile or broken thing after the other.

Each neighbour has doors of its own: what its JobManager answers, its reporters' pages, its manifest
with its pods and the files that the controller keeps of it, the graph of a job that somebody else
runs, and results of tunings.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.controller.scale import stage, world
from tests.operator.advise.conftest import RECORDED
from tests.operator.tuning.fakes import an_answer
from weir_operator.loop.record import RECORDS
from weir_operator.metrics import names
from weir_operator.tuning.protocol import write_frames

HEALTHY = 0
REST, PAGES, MANIFESTS = (1, 2, 3, 4), (5, 6, 7), (8, 9, 10)
FOREIGN, RESULTS = 11, 12
"""Numbers of the StreamApps; results of tunings are of none."""
INTERVAL = 5.0
"""Seconds between two ticks of each."""
JOBS = "/jobs/ID"
MIB = 2**20
LOOPS = {"interval": f"{INTERVAL:g}s", "policy": {"name": "queueing"}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """One thing that a neighbour does."""

    name: str
    door: str = ""  # end of the path that answers with it
    status: int = 200
    body: bytes = b""  # as gzip; of a file, as it is
    pause: float = 0.0  # seconds before each byte
    specs: Sequence[Mapping[str, Any]] = ()  # of the StreamApp, one after the other
    annotations: Mapping[str, str] | None = None  # of it
    pod: Mapping[str, Any] | None = None  # status of its first pod
    file: str = ""  # of its state, which holds `body` when its loops begin again
    legal: bool = False  # whether it may be that nothing is wrong with it


def list_inputs() -> dict[int, Sequence[Input]]:
    """Return every input of each neighbour."""
    doors = ("/jobs/overview", JOBS, "/vertices/v-op0", "/vertices/v-op9", "/checkpoints")
    answers = [
        Input(name=f"{door} {name} ({status})", door=door, status=status, body=body)
        for name, body in _answers()
        for door in doors
        for status in ((200, 500) if name.startswith("trace") else (200,))
    ]
    answers += [a_slow(door) for door in doors]
    found: dict[int, Sequence[Input]] = {
        FOREIGN: [
            Input(name=f"graph {name}", door=JOBS, body=gzip.compress(body, 1), legal=legal)
            for name, body, legal in _graphs()
        ],
        RESULTS: [
            Input(name=f"result {name}", door="/tuning", body=gzip.compress(body, 1))
            for name, body in _results()
        ],
    }
    for place, number in enumerate(REST):
        # What a job consists of is asked for when its loops begin.
        again = right_spec(number) | {"objective": {"responseTime": "3s"}}
        found[number] = [
            replace(each, specs=(again,)) if each.door.startswith(("/v", "/c")) else each
            for each in answers[place :: len(REST)]
        ]
    for place, number in enumerate(PAGES):
        pages = [Input(name=f"page {n}", door="/metrics", body=b) for n, b in _pages(number)]
        found[number] = [*pages, a_slow("/metrics")][place :: len(PAGES)]
    for place, number in enumerate(MANIFESTS):
        own = [*_pods(), *_files(number), *_manifests(number)]
        found[number] = own[place :: len(MANIFESTS)]
    return found


def list_series() -> dict[int, Sequence[Input]]:
    """Return what a Prometheus server answers of each neighbour with series there."""
    return {
        number: [
            Input(name=f"series {name}", door="/query", status=status, body=body, pause=pause)
            for name, status, body, pause in [*_series(number)][place :: len(REST)]
        ]
        for place, number in enumerate(REST)
    }


def a_slow(door: str) -> Input:
    """Return an answer that drips."""
    return Input(name=f"{door} slow", door=door, body=gzip.compress(b"{}"), pause=1.0)


def _answers() -> Iterator[tuple[str, bytes]]:
    """Yield bodies of answers of a REST interface."""
    pieces = {"lists": b"[],", "objects": b"{},", "fields": b'{"a":1},', "numbers": b"1,"}
    for (name, piece), size in itertools.product(pieces.items(), (MIB - 100, 8 * MIB - 100)):
        yield f"{name} of {size}", gzip.compress(b"[" + piece * (size // len(piece)) + b"0]", 1)
    texts = {"line feeds": "\\n", "causes": "Caused by: a.b: ", "packages": "a.", "blanks": " "}
    for name, text in texts.items():
        trace = json.dumps({"errors": [text * (900_000 // len(text))]}).replace("\\\\n", "\\n")
        yield f"trace of {name}", gzip.compress(trace.encode(), 1)
    others = {
        "null": b"null",
        "a list": b"[1]",
        "no fields": b"{}",
        "deep lists": b"[" * 39_000,
        "deep objects": b'{"a":' * 39_000,
        "a page": b"<html>",
        "no UTF-8": b'{"a":"\xff\xfe"}',
        "a large number": b'{"jobs":' + b"9" * 4_000 + b"}",
        "other types": b'{"jobs":1,"files":{},"vertices":"x","subtasks":[[1]],"counts":null}',
        "names": json.dumps({"vertices": [{"id": "v", "name": "x" * 900_000}]}).encode(),
    }
    for name, body in others.items():
        yield name, gzip.compress(body, 1)
    yield "zeros", gzip.compress(b"0" * 150 * MIB, 9)
    yield "damaged gzip", gzip.compress(b"x" * 1000)[:30]
    yield "no gzip", b"[]"


def _pages(number: int) -> Iterator[tuple[str, bytes]]:
    """Yield pages of a reporter."""
    app = names.mangle(app_of(number))
    head = f'{names.RECORDS_IN}{{weir_app="{app}",'.encode()
    lines = {
        "series": b'tm_id="%d"} 1\n',
        "labels": b",".join(b'l%d=""' % number for number in range(60)) + b',tm_id="%d"} 1\n',
        "long labels": b'tm_id="' + b"x" * 4000 + b'%d"} 1\n',
        "times": b'tm_id="%d"} 1 99999999999999999999\n',
        "infinity": b'tm_id="%d"} +Inf\n',
        "no values": b'tm_id="%d"} \n',
        "quotes": b'tm_id="%d" 1\n',
        "backslashes": b'tm_id="' + b"\\\\" * 3000 + b'%d"} 1\n',
    }
    for (name, line), count in itertools.product(lines.items(), (1, 900, 9_999, 20_000)):
        page = b"".join(head + line % series for series in range(count))
        yield f"{name} of {count} lines", gzip.compress(page[: 20 * MIB], 1)
    for name, body in {
        "line feeds": b"\n" * 3 * MIB,
        "one line": head + b"x" * 3 * MIB,
        "zeros": b"0" * 150 * MIB,
        "comments": b"# HELP a b\n" * (MIB // 4),
        "no UTF-8": head + b'tm_id="\xff"} 1\n',
    }.items():
        yield name, gzip.compress(body, 1)


def _manifests(number: int) -> Iterator[Input]:
    """Yield changes of a manifest: some refused, some legal and as large as may be."""
    pools = [
        {
            "name": f"p{n}",
            "sizes": [f"{100 + 10 * size}m" for size in range(8)],
            "price": str(1 + n),
        }
        for n in range(16)
    ]
    operators = [{"name": f"o{n}", "maxReplicas": 10_000} for n in range(100)]
    flinks: dict[str, Any] = {
        "config": {"config": {f"k.{n}": " 1" * 2500 for n in range(190)}},
        "long key": {"config": {"k" * 400_000: " ", "taskmanager.memory.size": "1 " * 4000}},
        "options": {"config": {"env.java.opts.all": "-XX:+Use" * 1000}},
        "arguments": {"job": {"args": ["x" * 4000] * 250}},
        "environment": a_pod_with(env=[{"name": f"E{n}", "value": "v" * 2000} for n in range(490)]),
        "objects": a_pod_with(command=[{"a": {}} for _ in range(90_000)]),
        "fields": {"podTemplate": {"metadata": {"labels": {f"l{n}": "v" for n in range(50_000)}}}},
        "levels": {"podTemplate": {"spec": {"x": json.loads('{"a":' * 900 + "1" + "}" * 900)}}},
    }
    specs: dict[str, dict[str, Any]] = {
        **{name: {"flink": flink} for name, flink in flinks.items()},
        "pairs at the limit": {"nodePools": pools, "operators": operators[:7]},
        "pairs beyond it": {"nodePools": pools, "operators": operators},
        "wrong operators": {"operators": [{"name": "o" * 60, "maxReplicas": -1}] * 100},
        "equal operators": {"operators": [{"name": "o"}] * 100},
        "unlike pools": {"nodePools": pools[:1] * 2},
        "policy": {"operatorManager": {"policy": {"name": "no" * 100}}},
        "settings": {"operatorManager": {"policy": {"settings": {f"s{n}": n for n in range(99)}}}},
        "long setting": {"operatorManager": {"policy": {"settings": {"s" * 1_000_000: 1}}}},
        "interval": {"operatorManager": {"interval": "1ms"}},
        "objective": {"objective": {"responseTime": "0s"}},
        "pools of nobody": {"nodePools": []},
    }
    legal = ("config", "arguments", "environment", "pairs at the limit")
    before = right_spec(number)
    for name, spec in specs.items():
        changed = before | spec | {"flink": before["flink"] | spec.get("flink", {})}
        yield Input(name=f"manifest {name}", specs=(changed,), legal=name in legal)
    large = before | {"flink": before["flink"] | flinks["environment"]}
    changes = (large | {"objective": {"responseTime": f"{2 + n}s"}} for n in range(40))
    yield Input(name="manifest that changes again and again", specs=tuple(changes), legal=True)
    annotations = {f"a{n}": "x," * 60_000 for n in range(2)}
    yield Input(name="manifest annotations", annotations=annotations, legal=True)


def right_spec(number: int) -> dict[str, Any]:
    """Return what a neighbour asks for when it is not hostile."""
    spec: dict[str, Any] = stage.manifest_of(number)["spec"] | {"operatorManager": LOOPS}
    if number == FOREIGN:
        ref = {"kind": "Deployment", "name": world.name_of(FOREIGN)}
        pools = [{"name": world.POOL, "sizes": ["1"], "price": "0.04"}]
        spec |= {"flink": {"ref": ref}, "nodePools": pools, "operators": []}
    return spec


def a_pod_with(**fields: Any) -> dict[str, Any]:
    """Return the part of a manifest that gives the main container some fields."""
    container = {"name": "flink-main-container", **fields}
    return {"podTemplate": {"spec": {"containers": [container]}}}


def _pods() -> Iterator[Input]:
    """Yield states of a pod, with what its image, its node and its user write into them."""
    texts = {"long": "x" * 500_000, "lines": "\n" * 500_000, "signs": "\u202e\0{}%s" * 50_000}
    for name, text in texts.items():
        for state in ("waiting", "terminated"):
            said = {"reason": "Error", "message": text, "exitCode": 1}
            status = [{"name": "flink-main-container", "state": {state: said}}]
            for kind in ("containerStatuses", "initContainerStatuses"):
                yield Input(name=f"pod {state} {kind} {name}", pod={kind: status}, legal=True)
    many = [{"name": f"c{n}", "state": {"waiting": {"reason": "r" * 900}}} for n in range(1000)]
    yield Input(name="pod of many containers", pod={"containerStatuses": many}, legal=True)


def _files(number: int) -> Iterator[Input]:
    """Yield what stands in the place of a file that Weir keeps."""
    contents = {
        "nothing": b"",
        "zeros": bytes(64 * MIB),
        "levels": b"[" * 100_000,
        "null": b"null",
        "other types": b'{"version":"","format":1,"operators":7,"key":[],"uid":{},"manifest":NaN}',
    }
    again = right_spec(number) | {"objective": {"responseTime": "3s"}}
    for file in ("learned.json", "forecast.json", "last-right-spec.json", "tuning.json", RECORDS):
        for name, body in contents.items():
            yield Input(
                name=f"file {file} {name}", file=file, body=body, specs=(again,), legal=True
            )


def _graphs() -> Iterator[tuple[str, bytes, bool]]:
    """Yield jobs by the names and edges of their vertices, and whether they may be right."""
    job = json.loads((RECORDED / "job.json").read_text())

    def graph(given: Sequence[str], edges: Sequence[tuple[int, int]] = ()) -> bytes:
        ids = [f"{number:032x}" for number in range(max(len(given), 10))]
        fed: dict[str, list[Mapping[str, str]]] = {each: [] for each in ids[: len(given)]}
        for source, target in edges:
            fed[ids[target]].append({"id": ids[source], "ship_strategy": "HASH"})
        vertices = [
            job["vertices"][0] | {"id": vertex, "name": name}
            for vertex, name in zip(ids, given, strict=False)
        ]
        nodes = [{"id": vertex, "inputs": inputs} for vertex, inputs in fed.items()]
        return json.dumps(job | {"vertices": vertices, "plan": {"nodes": nodes}}).encode()

    signs = (
        '"} 1\nweir_x{a="',
        "'); DROP TABLE ticks",
        "../../etc",
        "{0.__class__}",
        "%s%n",
        "NaN",
    )
    some = [f"v{number}" for number in range(200)]
    yield "of the most names", graph([f"v{number}" for number in range(1000)]), True
    yield "of too many names", graph([f"v{number}" for number in range(1001)]), False
    yield "of equal names", graph(["v"] * 300), True
    yield "of names that collide", graph(["a", "a-2", "a", "a-2", "a-2-2", "A", "a_2"] * 40), True
    yield "of a long name", graph(["x" * 900_000]), True
    yield "of long names", graph([f"{'y' * 10_000}{number}" for number in range(90)]), True
    yield "of empty names", graph(["", " ", "\n", "-"]), True
    yield "of signs", graph([*signs, "(a+)+$" * 1000, "\u202e\0", "\ud83d", "\U0001f9e8"]), True
    yield "with a circle", graph(some, [(0, 1), (1, 0)]), False
    yield "with an edge to itself", graph(some[:3], [(0, 0)]), True
    yield "with an edge from nowhere", graph(some[:3], [(9, 0)]), False
    yield "with an edge twice", graph(some[:3], [(0, 1), (0, 1)]), True
    yield "of all edges", graph(some, list(itertools.combinations(range(200), 2))), True
    layers = [(n, 4 * (n // 4 + 1) + k) for n in range(196) for k in range(4)]
    yield "of very many paths", graph(some, layers), True


def _results() -> Iterator[tuple[str, bytes]]:
    """Yield logs of tunings."""

    def framed(text: str) -> bytes:
        out = io.StringIO()
        write_frames(text, out)
        return out.getvalue().encode()

    right = an_answer({"op": 0.05}).model_dump(mode="json", by_alias=True)
    whole = framed(json.dumps(right))
    yield "nothing", b""
    yield "of others", b"line\n" * MIB
    yield "cut", whole[:-100]
    yield "of other bytes", whole.replace(b"A", b"B")
    yield "of numbers", b"weir-answer x 1/" + b"9" * 4000 + b" y\n"
    yield "of frames", b"weir-answer x 1/1 y\n" * (8 * MIB // 20)
    yield "zeros", framed("0" * 150 * MIB)
    for name, text in {
        "null": "null", "levels": "[" * 100_000, "lists": "[" + "[]," * MIB + "1]", "words": "no",
    }.items():  # fmt: skip
        yield name, framed(text)
    budgets: dict[str, dict[str, float]] = {
        "others": {"other": 0.1}, "none": {}, "more": {"op": 0.1, "other": 0.1},
        "infinity": {"op": math.inf}, "too long": {"op": 1e300}, "below zero": {"op": -1.0},
        "very many": {f"o{number}": 0.1 for number in range(100_000)},
        "a long name": {"x" * 4 * MIB: 0.1},
    }  # fmt: skip
    for name, given in budgets.items():
        yield (
            f"budgets {name}",
            framed(json.dumps(right | {"best": right["best"] | {"budgets": given}})),
        )
    for value in (0.0, -1.0, 1e308):
        weights = dict.fromkeys(right["best"]["weights"], value)
        yield (
            f"weights {value}",
            framed(json.dumps(right | {"best": right["best"] | {"weights": weights}})),
        )


def _series(number: int) -> Iterator[tuple[str, int, bytes, float]]:
    """Yield status, body and pause of answers of a Prometheus server."""
    metric = {"__name__": names.RECORDS_IN, names.APP_LABEL: app_of(number)}
    now = time.time()

    def matrix(*series: Mapping[str, Any], **besides: Any) -> bytes:
        return json.dumps({"data": {"result": series}, **besides}).encode()

    def one(*values: tuple[Any, Any], **labels: str) -> Mapping[str, Any]:
        return {"metric": metric | labels, "values": values}

    bodies: dict[str, bytes] = {
        "many": matrix(*(one((now, "1"), tm_id=f"t{n}") for n in range(20_000))),
        "too many": matrix(*(one((now, "1"), tm_id=f"t{n}") for n in range(150_000))),
        "many labels": matrix(one((now, "1"), **{f"l{n}": "" for n in range(100_000)})),
        "a long label": matrix(one((now, "1"), tm_id="x" * 8 * MIB)),
        "many samples": matrix(one(*((now - n / 1e4, "1") for n in range(400_000)))),
        "infinity": matrix(one((now, "+Inf"), (now, "NaN"), (1e308, "-Inf"))),
        "words": matrix(one((now, "one"))),
        "no times": matrix(one(("", "1"))),
        "an incomplete answer": matrix(isPartial=True),
        "warnings": matrix(warnings=["x" * MIB]),
        "zeros": b"0" * 150 * MIB,
        "lists": b"[" + b"[]," * 5 * MIB + b"0]",
        "deep lists": b"[" * 39_000,
        "null": b"null",
        "a page": b"<html>",
        "no UTF-8": b'{"data":"\xff"}',
    }
    for name, body in bodies.items():
        yield name, 200, gzip.compress(body, 1), 0.0
    for status in (302, 400, 422, 429, 503):
        error = json.dumps({"errorType": "timeout", "error": "x" * MIB}).encode()
        yield f"refused by {status}", status, gzip.compress(error), 0.0
    yield "slow", 200, gzip.compress(matrix()), 1.0


def app_of(number: int) -> str:
    return f"{world.namespace_of(number)}/{world.name_of(number)}"

"""Finds whoever reads what comes from outside without the limits of `weir_operator.limits`.

What is listed as an exception says why it needs none. A new reader belongs into `limits`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

READERS = frozenset(
    {
        "decompress",
        "decompressobj",
        "from_json",
        "iter_any",
        "iter_chunked",
        "iter_content",
        "json",
        "load_all",
        "loads",
        "model_validate_json",
        "open",
        "read",
        "read1",
        "read_bytes",
        "read_text",
        "readline",
        "readlines",
        "safe_load",
        "text",
        "text_string_to_metric_families",
    }
)
FUNCTIONS = frozenset({"from_json", "loads", "open", "text_string_to_metric_families"})
SEARCHES = frozenset(
    {"compile", "findall", "finditer", "fullmatch", "match", "search", "split", "sub"}
)

OWN = "a file, a folder or an object that only this process or a person at this machine writes"
SHIPPED = "a file of Weir's own images"
MANIFEST = "a manifest: the API server has limited it, and the CRD each of its fields"
MAY_READ = {
    "flink/agent.py": SHIPPED,
    "flink/jars.py": SHIPPED,
    "flink/program_jars.py": OWN,  # of `weir local`
    "flink_keys.py": SHIPPED,
    "cluster/app/last_valid_spec.py": OWN,
    "cluster/process/running.py": "a Secret of the administrator",
    "cluster/status/store.py": "the own status, as the API server limits it",
    "cluster/status/telemetry.py": "the kernel's",
    "cluster/app/reporter.py": "the own status, as the CRD limits it",
    "local/": OWN,
    "advise/adopt.py": OWN,
    "estimate/access.py": OWN,
    "loop/app_state.py": OWN,
    "loop/run_recorder.py": OWN,
    "loop/shadow.py": OWN,
    "metrics/direct.py": "lines that `limits` let through",
    "metrics/prometheus_server.py": "pieces that `limits` joins",
    "rescale/status.py": OWN,
    "runtime/files.py": OWN,
    "runtime/pods/configuration.py": SHIPPED,
    "runtime/processes/": OWN,
    "streamapp/crd.py": SHIPPED,
    "streamapp/loading.py": MANIFEST,
    "tuning/job.py": "the chart's",
    "tuning/process.py": OWN,  # the request that it wrote
    "tuning/protocol.py": "what `limits` let through",
    "tuning/store.py": OWN,
    "tuning/worker.py": "another process, made for one tuning",
}

LIMITED = "`tests/operator/flink/test_foreign_text.py` gives it hostile texts"
MAY_SEARCH = {
    "advise/metrics.py": LIMITED,
    "advise/reference.py": MANIFEST,
    "flink/causes.py": LIMITED,
    "flink/configuration.py": MANIFEST,
    "flink/jars.py": "what Java says of itself",
    "flink/job_graph.py": LIMITED,
    "flink/options.py": LIMITED,
    "flink/program_jars.py": OWN,
    "flink/scripts.py": LIMITED,
    "flink/transport.py": "a path of Weir's own",
    "flink/versions.py": MANIFEST,
    "cluster/app/preflight.py": "a sentence of Weir's own",
    "cluster/status/ownership.py": MANIFEST,
    "loop/events.py": "a sentence of Weir's own",
    "metrics/direct.py": "one name of a line that `limits` let through",
    "metrics/names.py": MANIFEST,
    "reporting/live_view.py": "a sentence of Weir's own",
    "rescale/stopping.py": "two words in a text that `limits` let through",
    "runtime/processes/": OWN,
    "streamapp/": MANIFEST,
    "tuning/protocol.py": LIMITED,
}


@pytest.fixture(scope="module")
def found(root) -> dict[str, set[str]]:
    """What each module of the operator calls to read, and to search by a regular expression."""
    sources = root / "operator/weir_operator"
    return {
        path.relative_to(sources).as_posix(): set(calls_of(ast.parse(path.read_text())))
        for path in sorted(sources.rglob("*.py"))
    }


def calls_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFor) and ast.unparse(node.iter).endswith(".content"):
            yield "read"
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            yield from {node.func.id} & FUNCTIONS
        elif isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner == "re":
                yield from (f"re.{name}" for name in {node.func.attr} & SEARCHES)
            elif node.func.attr != "open" or is_mode(node.args):
                yield from {node.func.attr} & READERS


def is_mode(arguments: list[ast.expr]) -> bool:
    """Return whether `open` is that of a path: much else can be opened."""
    return bool(arguments) and isinstance(arguments[0], ast.Constant)


def modules_that(found: dict[str, set[str]], *, search: bool) -> set[str]:
    return {
        module
        for module, calls in found.items()
        if any(call.startswith("re.") is search for call in calls) and module != "limits.py"
    }


def covers(allowed: str, module: str) -> bool:
    return module == allowed or (allowed.endswith("/") and module.startswith(allowed))


@pytest.mark.parametrize(
    ("allowed", "search"), [(MAY_READ, False), (MAY_SEARCH, True)], ids=["reads", "searches"]
)
def test_only_who_is_listed_reads_what_comes_from_outside(found, allowed, search):
    modules = modules_that(found, search=search)

    unlisted = {each for each in modules if not any(covers(entry, each) for entry in allowed)}
    unused = {entry for entry in allowed if not any(covers(entry, each) for each in modules)}

    assert not unlisted, "read by `weir_operator.limits`, or say here why no limit is needed"
    assert not unused, "listed here, and read nothing any more"


def test_whoever_gets_an_answer_over_http_reads_it_with_a_limit(found, root):
    clients = {
        module
        for module in found
        if "aiohttp" in (root / "operator/weir_operator" / module).read_text()
    }

    reading = {
        module for module in clients if any(not call.startswith("re.") for call in found[module])
    }

    # `direct` parses lines; the others read no body by themselves.
    assert reading == {"limits.py", "metrics/direct.py"}


@pytest.mark.parametrize(
    "line",
    [
        "async def f(answer): return await answer.read()",
        "async def f(answer): return await answer.json()",
        "async def f(answer):\n async for line in answer.content: pass",
        "import json\njson.loads(text)",
        "open(path)",
        "path.read_bytes()",
        "import re\nre.compile('a+')",
    ],
)
def test_each_way_to_read_is_found(line):
    assert list(calls_of(ast.parse(line)))

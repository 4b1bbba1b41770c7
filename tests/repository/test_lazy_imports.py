"""Guards the weight: what needs no learning library must not load one.

Import contracts cannot see whether an import is lazy, so a fresh Python is asked. Empty packages
stand in for the heavy ones, so that an import would succeed here and be seen.
"""

import os
import sys

import pytest

HEAVY = ("torch", "gpytorch", "botorch", "pyspark", "kopf", "kubernetes")

LIGHT_WORK = {
    "a tabular policy": (
        "import numpy, weir_policies.registry as registry\n"
        "registry.build('queueing', rng=numpy.random.default_rng(7))"
    ),
    "what a fit and a trace take from the tables": (
        "import weir_pipelines.history, weir_pipelines.traces"
    ),
}


@pytest.mark.parametrize("script", LIGHT_WORK.values(), ids=LIGHT_WORK.keys())
def test_light_work_loads_nothing_heavy(run, tmp_path, script):
    for name in HEAVY:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    seen = f"print([name for name in {HEAVY} if name in sys.modules])"
    could_be_seen = f"[__import__(name) for name in {HEAVY}]"

    asked = run(
        [sys.executable, "-c", f"import sys\n{script}\n{seen}\n{could_be_seen}\n{seen}"],
        PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]),
    )

    assert asked.stdout.splitlines() == ["[]", str(list(HEAVY))], asked.stderr


@pytest.mark.parametrize("module", ["cluster.process.running", "local.run"])
def test_what_scales_jobs_starts_without_scipy(run, module):
    asked = run(
        [
            sys.executable,
            "-c",
            f"import sys, weir_operator.{module}\n"
            # Numba imports `scipy` itself, which is small.
            "print([name for name in ('special', 'linalg', 'optimize', 'stats') "
            "if f'scipy.{name}' in sys.modules])",
        ],
        PYTHONPATH=os.pathsep.join(sys.path),
    )

    assert asked.stdout.splitlines() == ["[]"], asked.stderr


def test_functions_are_compiled_without_linear_algebra_until_one_needs_it(run):
    asked = run(
        [
            sys.executable,
            "-c",
            "import sys, numba, numpy, weir_policies.kernels.compiled\n"
            "print(numba.njit(lambda x: x.sum())(numpy.ones(3)), 'scipy.linalg' in sys.modules)\n"
            "print((numba.njit(lambda x: x @ x)(numpy.eye(2)) == numpy.eye(2)).all())",
        ],
        PYTHONPATH=os.pathsep.join(sys.path),
    )

    assert asked.stdout.splitlines() == ["3.0 False", "True"], asked.stderr

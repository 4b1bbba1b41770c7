"""Tunings in a process of their own: whatever becomes of it, an answer or a sentence comes out."""

import asyncio
import os
import signal
import sys
import textwrap
import threading

import psutil
import pytest

from tests.operator.tuning.fakes import a_request
from weir_operator.tuning.process import WORKER, ProcessTuner
from weir_operator.tuning.protocol import (
    REFUSED,
    TuningLostError,
    TuningRefusedError,
    pack_request,
    read_answer,
)
from weir_operator.tuning.worker import answer_file

LONG = 800.0
"""Seconds: on a busy machine, kernels that were never compiled there take minutes."""

ASKER = """
import subprocess, sys, time

from weir_operator.tuning.process import WORKER

folder = sys.argv[1]
worker = subprocess.Popen(
    [*WORKER, folder + "/work.json.gz", folder, "--tied"],
    stdin=subprocess.PIPE, start_new_session=True,
)
print(worker.pid, flush=True)
time.sleep(600)
"""
"""Starts a worker as the tuner does, and waits for ever."""

WITHOUT_TORCH = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "gpytorch", "botorch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from weir_operator.tuning import worker
sys.exit(worker.main(sys.argv[1:]))
"""
"""The worker where the extra `tune` is not installed."""


@pytest.fixture
def tuner_of(tmp_path):
    """Make a tuner whose process runs a program of the test's; `FOLDER` is where it works."""

    def build(program, *, deadline=LONG):
        path = tmp_path / "program.py"
        path.write_text("import sys, os, time, pathlib\nFOLDER = pathlib.Path(sys.argv[2])\n")
        with path.open("a") as file:
            file.write(textwrap.dedent(program))
        command = (sys.executable, str(path))
        return ProcessTuner(tmp_path / "tunings", deadline=deadline, command=command)

    return build


async def started(path):
    """Return what a process writes to a file once it runs."""
    while not (path.exists() and path.read_text().endswith("\n")):
        await asyncio.sleep(0.02)
    return int(path.read_text())


@pytest.mark.timeout(LONG + 60)
async def test_a_tiny_work_is_done_in_another_process_that_has_no_torch(tmp_path):
    command = (sys.executable, "-c", WITHOUT_TORCH)
    tuner = ProcessTuner(tmp_path, deadline=LONG, command=command)

    answer = await tuner.tune(a_request(algorithm="joint"), name="v1")

    assert answer.algorithm == "joint"
    assert answer.best.budgets.keys() == {"op"}
    assert answer.forecast is not None
    assert answer.forecast.intervals == 20
    assert answer.trained == {}


def test_work_that_cannot_be_done_is_answered_with_a_sentence(tmp_path, capsys):
    too_long = a_request().model_copy(update={"slots": 10_000})
    (tmp_path / "work").write_bytes(pack_request(too_long))

    status = answer_file(tmp_path / "work", tmp_path, printed=False, stop=threading.Event())

    assert status == REFUSED
    assert "Expected at most 200 slots" in capsys.readouterr().err


async def test_a_refusal_of_the_process_is_one_of_the_tuning_with_its_sentence(tuner_of):
    tuner = tuner_of(f"sys.exit(print('Expected less', file=sys.stderr) or {REFUSED})")

    with pytest.raises(TuningRefusedError, match="Expected less"):
        await tuner.tune(a_request(), name="v1")


async def test_a_process_that_is_killed_is_a_lost_tuning(tuner_of):
    tuner = tuner_of("os.kill(os.getpid(), 9)")

    with pytest.raises(TuningLostError, match="Signal 9"):
        await tuner.tune(a_request(), name="v1")


async def test_a_process_that_hangs_is_ended_at_its_deadline(tuner_of, tmp_path):
    tuner = tuner_of(
        """
        (FOLDER / 'pid').write_text(f'{os.getpid()}\\n')
        time.sleep(600)
        """,
        deadline=2.0,
    )

    with pytest.raises(TuningLostError, match="within 2 s"):
        await tuner.tune(a_request(), name="v1")

    pid = int((tmp_path / "tunings" / "v1" / "pid").read_text())
    assert not psutil.pid_exists(pid)


async def test_an_answer_of_before_is_not_taken_for_this_one(tuner_of, tmp_path):
    folder = tmp_path / "tunings" / "v1"
    folder.mkdir(parents=True)
    (folder / "answer.json").write_text("old")

    with pytest.raises(TuningLostError, match="got none"):
        await tuner_of("").tune(a_request(), name="v1")


async def test_a_defect_of_the_process_is_a_lost_tuning_that_says_what_it_said(tuner_of):
    with pytest.raises(TuningLostError, match=r"status 1: ValueError: no"):
        await tuner_of("raise ValueError('no')").tune(a_request(), name="v1")


async def test_cancelling_ends_the_process_and_what_it_began(tuner_of, tmp_path):
    tuner = tuner_of(
        """
        import subprocess
        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
        (FOLDER / 'pid').write_text(f'{child.pid}\\n')
        time.sleep(600)
        """
    )
    tuning = asyncio.create_task(tuner.tune(a_request(), name="v1"))
    child = psutil.Process(await started(tmp_path / "tunings" / "v1" / "pid"))

    tuning.cancel()
    await asyncio.wait({tuning})

    assert tuning.cancelled()
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.timeout(LONG + 60)
async def test_a_worker_dies_with_whoever_asked_even_while_it_starts(tmp_path):
    os.mkfifo(tmp_path / "work.json.gz")  # nobody writes to it: the worker waits for ever
    (tmp_path / "asker.py").write_text(ASKER)
    asker = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / "asker.py"), str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert asker.stdout is not None
    worker = psutil.Process(int(await asker.stdout.readline()))
    assert "weir_operator.tuning.worker" in worker.cmdline()

    asker.kill()
    await asker.wait()

    psutil.wait_procs([worker], timeout=LONG)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


@pytest.mark.timeout(LONG + 60)
async def test_a_worker_that_is_asked_to_end_answers_with_the_best_so_far(tmp_path):
    (tmp_path / "work.json.gz").write_bytes(
        pack_request(a_request().model_copy(update={"evaluations": 100_000}))
    )
    worker = await asyncio.create_subprocess_exec(
        *WORKER, str(tmp_path / "work.json.gz"), str(tmp_path)
    )
    while not (tmp_path / "study" / "evaluations" / "00001.json").exists():
        assert worker.returncode is None
        await asyncio.sleep(0.05)

    worker.send_signal(signal.SIGTERM)

    assert await worker.wait() == 0
    assert read_answer((tmp_path / "answer.json").read_bytes()).ended == "stopped"

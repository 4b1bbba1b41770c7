"""The program beside a job, with Python standing in for the autoscaler."""

import asyncio
import sys

import psutil
import pytest

from benchmarks.flink.flink_autoscaler import run_program

POLITE = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + POLITE


async def wait_for_output(folder):
    async with asyncio.timeout(30):
        while not (folder / "output.txt").read_text():
            await asyncio.sleep(0.01)


async def check_until_it_fails(check):
    async with asyncio.timeout(30):
        while True:
            check()
            await asyncio.sleep(0.01)


def find_running(folder):
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if str(folder) in (process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("program", [POLITE, STUBBORN])
async def test_a_program_has_ended_after_the_block(tmp_path, program):
    async with run_program([sys.executable, "-c", program], tmp_path, grace=0.1) as check:
        await wait_for_output(tmp_path)
        check()
        assert len(find_running(tmp_path)) == 1

    assert find_running(tmp_path) == []


async def test_a_program_that_ended_early_is_found_while_the_block_runs(tmp_path):
    async with run_program([sys.executable, "-c", "pass"], tmp_path) as check:
        with pytest.raises(RuntimeError, match="it ended"):
            await check_until_it_fails(check)

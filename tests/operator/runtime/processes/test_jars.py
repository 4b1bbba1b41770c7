"""Which copies of a job's jar a JobManager on this machine holds."""

import os
from types import SimpleNamespace

import pytest

from weir_operator.runtime.processes import runtime
from weir_operator.runtime.processes.runtime import LocalRuntime


class JobManager:
    """Holds jars, each under an id of its own."""

    held: list[str]
    uploads = 0

    def __init__(self, url):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def jars(self):
        return tuple(self.held)

    async def delete_jar(self, jar):
        if jar in self.held:
            self.held.remove(jar)

    async def upload_jar(self, path):
        type(self).uploads += 1
        self.held.append(f"{self.uploads}_{os.path.basename(path)}")
        return self.held[-1]


@pytest.fixture
def local(monkeypatch, tmp_path):
    monkeypatch.setattr(JobManager, "held", [], raising=False)
    monkeypatch.setattr(runtime, "FlinkRest", JobManager)
    found = LocalRuntime.__new__(LocalRuntime)
    found._uploaded = {}
    there = SimpleNamespace(rest_url="http://here")
    monkeypatch.setattr(found, "_job_manager", there, raising=False)
    found._job_jar = str(tmp_path / "trips.jar")
    (tmp_path / "trips.jar").write_bytes(b"1")
    return found


async def test_a_jar_is_uploaded_once_and_again_where_the_job_manager_has_lost_it(local):
    first, second = [await local.provide_jar() for _ in range(2)]
    JobManager.held.clear()
    third = await local.provide_jar()

    assert first == second
    assert JobManager.held == [third] != [first]


async def test_a_jar_that_was_built_again_takes_the_place_of_its_former_copy(local):
    await local.provide_jar()
    os.utime(local._job_jar, ns=(1, 1))

    newest = await local.provide_jar()

    assert JobManager.held == [newest]

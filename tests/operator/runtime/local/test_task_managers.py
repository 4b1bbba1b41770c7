"""Where a TaskManager's reporter listens, while its other ports come up."""

import socket
from types import SimpleNamespace

import pytest

from weir_operator.runtime.local import processes
from weir_operator.runtime.local.task_managers import LocalTaskManagers

REPORTER, RPC = 50807, 45421


@pytest.fixture
def listening(monkeypatch):
    """The ports on which the process listens."""
    ports: set[int] = set()
    monkeypatch.setattr(processes, "listening_ports", lambda pid: ports)
    return ports


async def test_rpc_that_listens_first_on_a_candidate_is_not_taken_for_the_reporter(listening):
    managers = LocalTaskManagers.__new__(LocalTaskManagers)
    managers._reporting = {}
    folder = SimpleNamespace(id="tm-1", alive=lambda: SimpleNamespace(pid=7))
    record = SimpleNamespace(metrics=(REPORTER, RPC))
    listening.add(RPC)
    managers._port(folder, record)  # type: ignore[arg-type]

    listening.add(REPORTER)

    assert managers._port(folder, record) == REPORTER  # type: ignore[arg-type]


def test_free_ports_are_none_that_flinks_rpc_could_be_given():
    found = processes.free_ports(50)

    assert len(set(found)) == 50
    with socket.socket() as given:
        given.bind(("", 0))
        assert max(found) < given.getsockname()[1]


def test_a_port_on_which_somebody_listens_is_not_free(monkeypatch):
    [taken] = processes.free_ports(1)
    monkeypatch.setattr(processes, "_LOWEST_PORT", taken)
    monkeypatch.setattr(processes, "_HIGHEST_PORT", taken + 2)
    monkeypatch.setattr(processes, "_FEWEST_PORTS", 1)
    with socket.socket() as listening:
        listening.bind(("", taken))

        assert taken not in processes.free_ports(1)

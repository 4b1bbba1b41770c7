"""A real API server for the session, and a namespace of its own for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.api.assets import MissingProgramError, find_or_build_assets
from tests.api.client import Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane, running_control_plane
from tests.api.fault_proxy import FaultProxy, running_fault_proxy
from weir_operator.api.client import KubernetesApi
from weir_operator.streamapp.crd import crd

Connect = Callable[[str], Awaitable[KubernetesApi]]
"""Makes a client for the owner of a token."""

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test: a build takes longer than a test may."""
    needed = any(item.get_closest_marker("kubernetes_api") for item in session.items)
    if not needed or session.config.option.collectonly:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")

    def say(sentence: str) -> None:
        if reporter is not None:  # a process of pytest-xdist has none
            reporter.write(f"{sentence}\n", flush=True)

    with suppress(MissingProgramError):  # said again by each test that needs it
        find_or_build_assets(say=say)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, ready, with Weir's CRDs."""
    try:
        with running_control_plane(
            find_or_build_assets(), tmp_path_factory.mktemp("control-plane")
        ) as plane:
            asyncio.run(_define_stream_apps(plane))
            yield plane
    except MissingProgramError as error:
        pytest.skip(str(error))


@pytest.fixture
async def kube(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Kube]:
    """A client with a fresh namespace, which nobody else uses."""
    async with session_for(certificate=control_plane.certificate, token=ADMIN) as session:
        client = Kube(
            session,
            url=control_plane.url,
            namespace="",
            kubeconfig=control_plane.kubeconfig(tmp_path),
        )
        made = await client.create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
        client.namespace = made.body["metadata"]["name"]
        yield client


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    """A way to the API server on which a test lets faults happen."""
    async with running_fault_proxy(control_plane.url, control_plane.certificate) as running:
        yield running


@pytest.fixture
def write_kubeconfig(
    control_plane: ControlPlane,
    proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str], Path]:
    """Write the kubeconfig that `KubernetesApi.connect` reads."""
    folder = tmp_path / "client"
    folder.mkdir()
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # The package reads the variable KUBECONFIG once, when it is imported.
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION",
        str(folder / "kubeconfig"),
    )
    return lambda token: control_plane.kubeconfig(folder, url=proxy.url, token=token)


@pytest.fixture
async def connected(write_kubeconfig: Callable[[str], Path]) -> AsyncIterator[Connect]:
    """The client, by way of the proxy, for whom a test names; an attempt may take 1 s."""
    opened: list[KubernetesApi] = []

    async def connect(token: str) -> KubernetesApi:
        write_kubeconfig(token)
        opened.append(await KubernetesApi.connect(timeout=1.0))
        return opened[-1]

    yield connect
    for each in opened:
        await each.close()


@pytest.fixture
async def api(connected: Connect) -> KubernetesApi:
    """The client, for an administrator."""
    return await connected(ADMIN)


async def _define_stream_apps(plane: ControlPlane) -> None:
    """Create the CRD and return when StreamApps can be stored.

    For a moment after a CRD is established the API server answers 429 or 404.
    """
    async with session_for(certificate=plane.certificate, token=ADMIN) as session:
        client = Kube(session, url=plane.url, namespace="default", kubeconfig=Path())
        made = await client.create(_CRDS, crd())
        if made.status != 201:
            raise RuntimeError(f"expected the API server to take the CRD: {made.message}")
        while (await client.get(client.stream_apps)).status != 200:
            await asyncio.sleep(0.05)

import json

import pytest

from tests.operator.cluster.process.loopback import Server
from tests.operator.http_server import serving


@pytest.fixture
async def server(tmp_path, monkeypatch):
    """An API server on loopback, to which every client of the test connects."""
    server = Server()
    async with serving(server.handle) as server.url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server.url}}],
            "users": [{"name": "test", "user": {"token": "guest"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(config))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setenv("KUBECONFIG", str(file))
        monkeypatch.setattr(
            "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file)
        )
        yield server

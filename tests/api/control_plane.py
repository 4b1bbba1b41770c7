"""A real etcd and kube-apiserver on the loopback, for as long as the tests run.

There is no controller manager, no scheduler and no node: what is created stays as it was created,
nobody collects orphans, and a namespace that is deleted stays `Terminating`. Every session begins
with an empty etcd.
"""

from __future__ import annotations

import base64
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import yaml

from tests.api.assets import Assets, MissingProgramError

ADMIN = "admin-of-a-test"
"""Bearer token of somebody who may do everything."""
GUEST = "guest-of-a-test"
"""Bearer token of the user `guest`, who may do nothing but what a test gives them."""

_SECONDS_TO_START = 90.0


class ControlPlane:
    """An API server and its store, which can be sent away and called back."""

    def __init__(self, assets: Assets, folder: Path) -> None:
        """Take the programs and an empty folder; nothing runs yet."""
        self._assets = assets
        self._folder = folder
        self._etcd_port, self._peer_port, self._port = _free_ports(3)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def certificate(self) -> Path:
        """File with the certificate that the API server made for itself."""
        return self._folder / "certificates/apiserver.crt"

    def start(self) -> None:
        """Start both programs and return when the API server is ready.

        Raises:
            MissingProgramError: `openssl` is not on this machine.
            RuntimeError: One of them ended, or was not ready in time; holds the end of its log.
        """
        self._write_credentials()
        self._run(
            "etcd", self._assets.etcd, "--unsafe-no-fsync", "--log-level=warn",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{self._peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{self._peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{self._peer_port}",
        )  # fmt: skip
        self.start_api_server()

    def start_api_server(self) -> None:
        """Start the API server, at the same address as before, and return when it is ready.

        Raises:
            RuntimeError: It ended, or was not ready in time; holds the end of its log.
        """
        self._run(
            "kube-apiserver", self._assets.kube_apiserver,
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}",
            f"--cert-dir={self.certificate.parent}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'accounts.key'}",
            f"--service-account-signing-key-file={self._folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/16",
            # Nobody makes the account `default` of a namespace, which it would demand of each pod.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",  # an address of the loopback would be refused there
            "--profiling=false",
        )  # fmt: skip
        self._wait_until_ready()

    def stop_api_server(self) -> None:
        """End the API server at once; what it stored stays."""
        self._end("kube-apiserver")

    def stop(self) -> None:
        for name in reversed(list(self._running)):
            self._end(name)

    def kubeconfig(self, folder: Path, *, url: str | None = None, token: str = ADMIN) -> Path:
        """Write a kubeconfig into `folder`, return its path.

        Args:
            folder: Where the file is written.
            url: Where the client is to connect, such as a proxy that speaks plain HTTP; `None` is
                the API server itself.
            token: The client's bearer token.
        """
        cluster: dict[str, str] = {"server": url or self.url}
        if cluster["server"].startswith("https"):
            certificate = base64.b64encode(self.certificate.read_bytes()).decode()
            cluster["certificate-authority-data"] = certificate
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": "test", "user": {"token": token}}],
                }
            )
        )
        return path

    def _write_credentials(self) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            raise MissingProgramError(
                "openssl was not found, which makes the API server's key: install it"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "tokens.csv").write_text(
            f"{ADMIN},admin,admin,system:masters\n{GUEST},guest,guest\n"
        )
        key = self._folder / "accounts.key"
        subprocess.run([openssl, "genrsa", "-out", str(key), "2048"], check=True,
                       capture_output=True)  # fmt: skip

    def _run(self, name: str, program: Path, *arguments: str) -> None:
        # Should the tests be killed, these end with them. Linux takes the thread that starts a
        # program for its parent, so this is called by the main thread alone.
        guard = [setpriv, "--pdeathsig=KILL"] if (setpriv := shutil.which("setpriv")) else []
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*guard, str(program), *arguments],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _SECONDS_TO_START
        while not self._answers_ready():
            for name, process in self._running.items():
                if process.poll() is not None or time.monotonic() > deadline:
                    end = self._log(name).read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"expected {name} to become ready; its log ends:\n{end}")
            time.sleep(0.1)

    def _answers_ready(self) -> bool:
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        try:
            trust = ssl.create_default_context(cafile=self.certificate)
            with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
                return bool(answer.status == 200)
        except (FileNotFoundError, URLError, ConnectionError, TimeoutError):
            return False
        except ssl.SSLError:  # the API server is still writing its certificate
            return False


@contextmanager
def running_control_plane(assets: Assets, folder: Path) -> Iterator[ControlPlane]:
    """Run a control plane while the block runs."""
    plane = ControlPlane(assets, folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def _free_ports(count: int) -> list[int]:
    """Return ports of the loopback that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports

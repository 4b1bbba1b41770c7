"""A Prometheus server that scrapes pages on this machine, as the chart's PodMonitors have it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

PATIENCE = 120.0
"""Seconds within which a server is ready; the limit only ends a test that fails."""


class NoPrometheusError(Exception):
    """This machine has no `prometheus`."""


@contextmanager
def running_prometheus(
    folder: Path, targets: Sequence[str], *, every: float = 1.0
) -> Iterator[str]:
    """Run a server while the block runs; yield its address."""
    job = {
        "job_name": "weir",
        "scrape_interval": f"{every * 1000:.0f}ms",
        "scrape_timeout": f"{every * 1000:.0f}ms",
        "honor_labels": True,
        "static_configs": [{"targets": [*targets]}],
    }
    with running_scraper(folder, job) as url:
        yield url


@contextmanager
def running_scraper(
    folder: Path, job: Mapping[str, object], *, port: int | None = None
) -> Iterator[str]:
    """Run a server with one scrape job while the block runs; yield its address."""
    with running_server(folder, yaml.safe_dump({"scrape_configs": [job]}), port=port) as url:
        yield url


@contextmanager
def running_server(
    folder: Path, configuration: str, *switches: str, port: int | None = None
) -> Iterator[str]:
    """Run a server over `folder/tsdb` while the block runs; yield its address."""
    program = shutil.which("prometheus")
    if program is None:
        raise NoPrometheusError("no `prometheus` on the PATH: apt-get install prometheus (Debian)")
    config = folder / "prometheus.yml"
    config.write_text(configuration)
    address = f"127.0.0.1:{free_port() if port is None else port}"
    command = (
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        *switches,
    )
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_until_ready(f"http://{address}/-/ready", process)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5.0):
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"expected a Prometheus server at {url}: {error}") from error
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

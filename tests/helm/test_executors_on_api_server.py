"""Spark's driver gets executors from a real API server, by the flags and rights of the chart."""

from __future__ import annotations

import asyncio
import sys
from datetime import date

import pyarrow.parquet as pq
import pytest

from tests.helm.one_node import ADDRESS, OneNode
from tests.helm.samples import of_kind
from weir_pipelines.ingest import DayImport, Scraped, begin_of
from weir_pipelines.metrics import METRICS, RECORDS_IN, RECORDS_OUT
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.store import Partition, Tables

pytestmark = [pytest.mark.kubernetes_api, pytest.mark.timeout(600)]

DAY = date(2026, 3, 2)
RATE = 20
"""Records/s that the source of the history gives out."""
VALUES = {
    "prometheus": {"url": "http://prometheus:9090"},
    "pipelines": {
        "enabled": True,
        "memory": "512m",
        "executors": {"count": 1, "cores": 1, "memory": "512m"},
        "tables": {"accessModes": ["ReadWriteMany"]},
    },
}
RIGHTS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
"""Where what the driver may do is made."""


@pytest.fixture
def tables(tmp_path):
    """Ten minutes of a source."""
    tables = Tables(tmp_path / "tables")
    seconds = range(0, 605, 5)
    start = int(begin_of(DAY)) + 36_000
    labels = {"weir_operator": "read", "task_name": "Source", "job_id": "j"}
    days = DayImport(tmp_path / "sorting", "streams/trips")
    for role, rate in ((RECORDS_IN, 0), (RECORDS_OUT, RATE)):
        times, values = [1000 * (start + s) for s in seconds], [rate * s for s in seconds]
        scraped = Scraped(name=METRICS[role], labels=labels, times_ms=times, values=values)
        days.take([scraped])
    days.write(tables)
    return tables


@pytest.fixture
async def driver(kube, render, control_plane, tables, tmp_path):
    """The command of the CronJob's pod, whose pod is there, with the rights of its account."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    await kube.merge(f"/api/v1/namespaces/{kube.namespace}", {"metadata": {"labels": restricted}})
    objects = render(VALUES, namespace=kube.namespace)
    for kind, path in RIGHTS.items():
        for each in of_kind(objects, kind):
            if "pipelines" in each["metadata"]["name"]:
                made = await kube.create(path.format(kube.namespace), each)
                assert made.status == 201, made.message
    [job] = of_kind(objects, "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    pod = {**pod, "metadata": {**pod["metadata"], "name": "driver"}}
    made = await kube.create(f"/api/v1/namespaces/{kube.namespace}/pods", pod)
    assert made.status == 201, made.message
    [template] = [each for each in of_kind(objects, "ConfigMap") if "pod.yaml" in each["data"]]
    (tmp_path / "pod.yaml").write_text(template["data"]["pod.yaml"])
    account = f"{RIGHTS['ServiceAccount']}/{pod['spec']['serviceAccountName']}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = await kube.create(account.format(kube.namespace), asked)
    here = {
        "/var/lib/weir-history": tables.root,
        "/etc/weir/executor": str(tmp_path),
        "https://kubernetes.default.svc": control_plane.url,
        "$(POD_NAME)": "driver",
        "$(POD_IP)": ADDRESS,
        "--days=2": f"--from={DAY}",
        "--prometheus=http://prometheus:9090": "arrivals",
    }
    [container] = pod["spec"]["containers"]
    flags: list[str] = container["args"]
    for inside, outside in here.items():
        flags = [each.replace(inside, outside) for each in flags]
    # Inside a pod the client finds both by itself.
    credentials = "spark.kubernetes.authenticate"
    flags.append(f"--conf={credentials}.caCertFile={control_plane.certificate}")
    flags.append(f"--conf={credentials}.oauthToken={token.body['status']['token']}")
    return [sys.executable, "-m", "weir_cli.main", *flags]


async def test_a_day_is_worked_up_by_executors_that_leave_nothing_behind(
    kube, driver, tables, tmp_path
):
    with OneNode(kube, tmp_path) as node:
        await node.tell_that_it_runs("driver")
        process = await asyncio.create_subprocess_exec(
            *driver, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        ended = asyncio.create_task(process.communicate())
        while not ended.done():
            await node.look()
            await asyncio.wait({ended}, timeout=0.5)
        said, _ = await ended
        left = await node.executors()

    logs = "".join(node.log(each["metadata"]["name"]).read_text() for each in node.seen)
    assert process.returncode == 0, f"{said.decode()}\n{logs}"
    assert len(node.seen) == 1
    [owner] = node.seen[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Pod", "driver")
    assert left == []
    assert "Failure executing" not in said.decode()  # of a request that was refused
    rows = pq.read_table(tables.path(ARRIVALS, Partition("streams/trips", DAY))).to_pylist()
    assert [row["arrived"] for row in rows] == pytest.approx([RATE] * 10)

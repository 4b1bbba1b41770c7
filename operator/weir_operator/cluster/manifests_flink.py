"""What a Flink container finds in its ConfigMap: configuration, logging and start script. Pure.

A ConfigMap is named for its content and never changed, so a pod that restarts finds what it was
made with, and an upgrade leaves the old version to go back to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from weir_operator.cluster.api import Body
from weir_operator.cluster.flink_pods import FlinkPods, fitting
from weir_operator.cluster.manifests_pod import CONFIG_MOUNT
from weir_operator.cluster.start_script import (
    SCRATCH,
    provide_jar,
    start_script,
    use_archive,
)
from weir_operator.flink.commands import (
    JOB_MANAGER_CLASS,
    TASK_MANAGER_CLASS,
    java_options,
    job_manager_options,
    render_console_log4j,
    task_manager_options,
)
from weir_operator.flink.configuration import (
    ClusterAddress,
    TaskManagerIdentity,
    high_availability,
    job_manager_configuration,
    render_yaml,
    task_manager_configuration,
)
from weir_operator.flink.memory import split_job_manager, split_memory

RPC_PORT = 6123
BLOB_PORT = 6124
REST_PORT = 8081
METRICS_PORT = 9249
TASK_RPC_PORT = 6122
TASK_DATA_PORT = 6121
RESULTS_PATHS = ("job-result-store.storage-path", "application-result-store.storage-path")
"""Where Flink notes which jobs have ended, until it has cleared up after them."""


def job_manager_files(pods: FlinkPods) -> dict[str, str]:
    """Return the files of the JobManager's ConfigMap.

    Raises:
        PermanentError: No JobManager can run in so little memory.
    """
    configuration = job_manager_configuration(
        app=pods.app,
        address=_address(pods),
        storage=pods.storage,
        metrics_ports=(METRICS_PORT,),
        max_parallelism=pods.max_parallelism,
        user=pods.make.config,
        place={
            "jobmanager.bind-host": "0.0.0.0",
            "rest.bind-address": "0.0.0.0",
            "rest.bind-port": str(REST_PORT),
            "blob.server.port": str(BLOB_PORT),
            "io.tmp.dirs": "/tmp",
            "web.upload.dir": SCRATCH,
            **_recovery(pods),
            **_results(pods),
        },
    )
    memory = split_job_manager(pods.make.config, process=pods.make.job_manager.memory)
    # The leader is found by its pod's address: a name would be asked for before it is known.
    own_address = (
        '-D "jobmanager.rpc.address=$POD_IP" -D "rest.address=$POD_IP"' if pods.survives else ""
    )
    return {
        "config.yaml": render_yaml(configuration),
        "log4j.properties": render_console_log4j(),
        "start.sh": start_script(
            config_dir=CONFIG_MOUNT,
            before=provide_jar(
                pods.make.jar, class_path=pods.make.config.get("pipeline.classpaths", "")
            ),
            options=(
                *job_manager_options(memory.jvm),
                *java_options(pods.make.config, "jobmanager"),
            ),
            main=f"{JOB_MANAGER_CLASS} --configDir {CONFIG_MOUNT} --executionMode cluster"
            f" {own_address}",
        ),
    }


def task_manager_files(pods: FlinkPods, operator: str, pool: str) -> dict[str, str]:
    """Return the files of the ConfigMap of an operator's TaskManagers in a pool.

    Raises:
        PermanentError: Their memory cannot be split as the user's keys ask.
    """
    configuration = task_manager_configuration(
        identity=TaskManagerIdentity(app=pods.app, id=None, operator=operator, pool=pool),
        address=_address(pods),
        storage=pods.storage,
        memory=pods.memory_of(operator, pool),
        metrics_ports=(METRICS_PORT,),
        user=pods.make.config,
        place={
            "taskmanager.bind-host": "0.0.0.0",
            "taskmanager.rpc.port": str(TASK_RPC_PORT),
            "taskmanager.data.port": str(TASK_DATA_PORT),
            "io.tmp.dirs": "/tmp",
            **_recovery(pods),
        },
    )
    memory = split_memory(configuration)
    return {
        "config.yaml": render_yaml({**configuration, **memory.settings}),
        "log4j.properties": render_console_log4j(),
        "start.sh": start_script(
            config_dir=CONFIG_MOUNT,
            before=use_archive(),
            options=(
                *task_manager_options(memory.jvm, processors=pods.cores_of(pool)),
                *java_options(pods.make.config, "taskmanager"),
            ),
            more_options="$archive",
            main=f"{TASK_MANAGER_CLASS} --configDir {CONFIG_MOUNT}"
            ' -D "taskmanager.resource-id=$POD_NAME" -D "taskmanager.host=$POD_IP"',
        ),
    }


def config_map(pods: FlinkPods, name: str, labels: Mapping[str, str], data: Body) -> Body:
    """Return a ConfigMap named for its content, which is never changed."""
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{fitting(name, longest=200)}-{digest}",
            "namespace": pods.namespace,
            "labels": dict(labels),
            "ownerReferences": [pods.owner.reference()],
        },
        "immutable": True,
        "data": dict(data),
    }


def _address(pods: FlinkPods) -> ClusterAddress:
    return ClusterAddress(
        host=f"{pods.job_manager}.{pods.namespace}", rpc_port=RPC_PORT, rest_port=REST_PORT
    )


def _results(pods: FlinkPods) -> dict[str, str]:
    if not pods.results:
        return {}
    folder = f"{pods.recovery_folder}/{pods.results}"
    return dict(zip(RESULTS_PATHS, (f"{folder}/jobs", f"{folder}/applications"), strict=True))


def _recovery(pods: FlinkPods) -> dict[str, str]:
    if not pods.survives:
        return {}
    return high_availability(
        cluster=pods.cluster_id, namespace=pods.namespace, storage=pods.recovery_folder
    )

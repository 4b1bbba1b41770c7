"""The ConfigMap of a Flink container: configuration, logging and start script. Pure.

A ConfigMap is named for its content and never changes, so a pod that restarts finds the
configuration that it started with, and an upgrade can go back to the old version.

The script replaces itself by the JVM, which is then the container's first process and receives
signals directly. If the image has its own entrypoint, as Flink's images do, the JVM starts through
it: it preloads the allocator and enables the plugins of `ENABLE_BUILT_IN_PLUGINS`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping

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
from weir_operator.kubernetes.api.client import Body
from weir_operator.runtime.kubernetes.pod_spec import AGENT_JAR, AGENT_MOUNT, CONFIG_MOUNT
from weir_operator.runtime.kubernetes.pods import FlinkPods, fitting

FLINK = "/opt/flink"
"""Where Flink is in an image."""
ENTRYPOINT = "/docker-entrypoint.sh"
"""Where Flink's images, and those made from them, have theirs; the Flink Kubernetes Operator starts
it by this name, too."""
ARCHIVE = f"{FLINK}/weir/tm.jsa"
"""An archive of classes in the image, which TaskManagers start from where there is one."""
JAR_ID = "weir_job.jar"
"""Under which the JobManager knows the job's jar; Flink passes over names without `_`."""
SCRATCH = "/tmp/weir"
"""What the script makes, and where the JobManager keeps jars."""
UPLOADED_JAR = f"{SCRATCH}/flink-web-upload/{JAR_ID}"

# The entrypoint writes plugins and a configuration into Flink's folder, which may be read-only, and
# a configuration of which nothing is read. It would start a JVM for the latter.
_THROUGH_THE_ENTRYPOINT = f"""\
through=
if [ -x {ENTRYPOINT} ]; then
  home={SCRATCH}/home
  mkdir -p $home/bin $home/conf $home/plugins
  for each in {FLINK}/*; do
    case $each in */bin | */conf | */plugins) ;; *) ln -sfn "$each" $home/ ;; esac
  done
  for folder in bin plugins; do
    for each in {FLINK}/$folder/*; do
      [ ! -e "$each" ] || ln -sfn "$each" $home/$folder/
    done
  done
  rm -f $home/bin/config-parser-utils.sh
  printf '#!/bin/sh\\n' > $home/bin/config-parser-utils.sh
  chmod +x $home/bin/config-parser-utils.sh
  export FLINK_HOME=$home FLINK_PLUGINS_DIR=$home/plugins
  through={ENTRYPOINT}
fi
"""


def start_script(
    *,
    options: tuple[str, ...],
    main: str,
    config_dir: str,
    before: str,
    more_options: str = "",
) -> str:
    """Return the script for `sh`.

    Args:
        options: Of the JVM.
        main: Main class and its arguments, as the shell reads them.
        config_dir: Folder with `log4j.properties`.
        before: Lines that come first; what they leave in `$@` are more arguments.
        more_options: Of the JVM, as the shell reads them.
    """
    return (
        "set -eu\n"
        # The archive of classes holds only for the same jars in the same order.
        "export LC_ALL=C\n"
        "set --\n"
        f"{before}"
        f"{_THROUGH_THE_ENTRYPOINT}"
        f"classes=$(echo {FLINK}/lib/*.jar | tr ' ' ':')\n"
        f"exec $through java {shlex.join(options)} {more_options} \\\n"
        f"  -Dlog4j.configurationFile={config_dir}/log4j.properties \\\n"
        f'  -cp "$classes" \\\n'
        f'  {main} "$@"\n'
    )


def use_archive() -> str:
    """Return the lines that set `$archive` to the JVM's option, where the image has one."""
    return f"archive=\n[ ! -s {ARCHIVE} ] || archive=-XX:SharedArchiveFile={ARCHIVE}\n"


def use_agent(pods: FlinkPods) -> str:
    """Return the lines that set `$agent` to the JVM's option, where the pod has Weir's agent."""
    jar = f"{AGENT_MOUNT}/{AGENT_JAR}"
    return "" if pods.agent is None else f"agent=\n[ ! -r {jar} ] || agent=-javaagent:{jar}\n"


def _agent_option(pods: FlinkPods) -> str:
    return "" if pods.agent is None else " $agent"


def provide_jar(jar: str | None, *, class_path: str = "") -> str:
    """Return the lines that put the job's jar where `GET /jars` finds it, and its libraries.

    Every other jar below `usrlib` is on the class path of the job, in JobManager and TaskManagers.

    Args:
        jar: In the image; `None` takes the one jar in `usrlib` itself.
        class_path: What the user has there besides, as `pipeline.classpaths` is written.
    """
    found = shlex.quote(jar) if jar else f"{FLINK}/usrlib/*.jar"
    wanted = f"{jar} in the image" if jar else f"one jar in {FLINK}/usrlib of the image"
    remedy = "correct its path, or put it there" if jar else "name the one to run"
    given = f"{shlex.quote(class_path)}${{libraries:+';'}}" if class_path else ""
    return (
        f"set -- {found}\n"
        '[ $# -eq 1 ] && [ -r "$1" ] || {\n'
        # A pattern that matches nothing stands for itself.
        '  [ $# -gt 1 ] || set -- "nothing that can be read"\n'
        f"  echo {shlex.quote(f'spec.flink.job.jar: expected {wanted}, got')} "
        f'"$*; "{shlex.quote(remedy)} | tee /dev/termination-log >&2\n'
        "  exit 1\n"
        "}\n"
        f"mkdir -p {SCRATCH}/flink-web-upload\n"
        f'ln -sf "$1" {UPLOADED_JAR}\n'
        f"libraries=$(find -L {FLINK}/usrlib -name '*.jar' ! -path \"$1\" 2>/dev/null | sort"
        " | sed 's/ /%20/g; s/^/file:/' | paste -s -d ';' -)\n"
        f"libraries={given}$libraries\n"
        "set --\n"
        '[ -z "$libraries" ] || set -- -D "pipeline.classpaths=$libraries"\n'
    )


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
            )
            + use_agent(pods),
            more_options=_agent_option(pods).strip(),
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
            before=use_archive() + use_agent(pods),
            options=(
                *task_manager_options(memory.jvm, processors=pods.cores_of(pool)),
                *java_options(pods.make.config, "taskmanager"),
            ),
            more_options=f"$archive{_agent_option(pods)}",
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

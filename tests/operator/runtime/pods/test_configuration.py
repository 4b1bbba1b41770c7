"""The script of a Flink container, run in a folder that stands for the image."""

import os
import re
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import patch

import pytest
import yaml

from tests.operator.streamapp.builders import a_manifest
from weir_operator.flink_keys import remedy_for_owned
from weir_operator.runtime.pods.configuration import (
    RESULTS_PATHS,
    check_python,
    hold_script,
    job_manager_files,
    provide_jar,
    start_script,
    task_manager_files,
)
from weir_operator.runtime.pods.pods import PYTHON_JAR, FlinkPods
from weir_operator.streamapp import flink as streamapp_flink
from weir_operator.streamapp.loading import parse_manifest

OPTIONS = ("-Xmx64m", "-Dsaid=a b")
ENTRYPOINT = """\
#!/bin/bash
# As that of Flink's images: an allocator, plugins, a configuration, then what it was given.
export PRELOADED=allocator
for plugin in $ENABLE_BUILT_IN_PLUGINS; do
  mkdir -p "$FLINK_HOME/plugins/${plugin%.jar}" || exit 1
  ln -fs "$FLINK_HOME/opt/$plugin" "$FLINK_HOME/plugins/${plugin%.jar}" || exit 1
done
"$FLINK_HOME/bin/config-parser-utils.sh" "$FLINK_HOME/conf" -Djobmanager.rpc.address=x || exit 1
exec "$@"
"""
JAVA = """\
#!/bin/sh
printf '%s\\n' "$@" > "$ROOT/arguments"
env > "$ROOT/environment"
echo $$ > "$ROOT/pid"
"""


class Image:
    """A folder in the place of a container's root, and what its JVM was started with."""

    def __init__(self, root):
        self.root = root
        for name in ("lib/flink-dist.jar", "lib/log4j.jar", "opt/flink-s3.jar"):
            self.put(f"opt/flink/{name}")
        self.put("opt/flink/plugins/metrics-prometheus/reporter.jar")
        self.put("opt/flink/bin/config-parser-utils.sh", "#!/bin/sh\nexit 7\n", executable=True)
        self.put("opt/flink/conf/config.yaml")
        self.put("bin/java", JAVA, executable=True)

    def put(self, name, text="x", *, executable=False):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if executable:
            file.chmod(0o755)

    def with_entrypoint(self):
        self.put("docker-entrypoint.sh", ENTRYPOINT, executable=True)
        return self

    def files(self):
        return sorted((self.root / "opt").rglob("*"))

    def start(self, before, **environment):
        script = start_script(options=OPTIONS, main="Main --configDir /conf", before=before)
        for place in ("/opt/flink", "/docker-entrypoint.sh", "/tmp/weir", "/dev/termination-log"):
            # Not the beginning of a longer name, such as flink-python.jar.
            script = re.sub(rf"{re.escape(place)}(?![\w-])", f"{self.root}{place}", script)
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        (self.root / "dev").mkdir(exist_ok=True)
        process = subprocess.Popen(
            ["sh", "-c", script],
            env=os.environ | {"PATH": path, "ROOT": str(self.root), **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        _, said = process.communicate(timeout=60)
        self.pid, self.failed, self.said = process.pid, process.returncode != 0, said
        return self

    def arguments(self):
        text = (self.root / "arguments").read_text()
        return text.replace(str(self.root), "").splitlines()

    def environment(self):
        lines = (self.root / "environment").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path)


def test_the_script_becomes_the_jvm(image):
    image.start("")

    assert int((image.root / "pid").read_text()) == image.pid
    assert image.arguments() == [
        *OPTIONS,
        "-Dlog4j.configurationFile=/etc/weir/flink/log4j.properties",
        "-cp",
        "/opt/flink/lib/flink-dist.jar:/opt/flink/lib/log4j.jar",
        *("Main", "--configDir", "/conf"),
    ]


def test_the_images_own_entrypoint_runs_before_the_jvm_and_nothing_stays_between(image):
    image.with_entrypoint().start("", ENABLE_BUILT_IN_PLUGINS="flink-s3.jar")

    assert image.environment()["PRELOADED"] == "allocator"
    assert int((image.root / "pid").read_text()) == image.pid
    assert image.arguments()[0] == OPTIONS[0]


def test_plugins_that_the_entrypoint_enables_are_found_beside_those_of_the_image(image):
    before = image.with_entrypoint().files()

    image.start("", ENABLE_BUILT_IN_PLUGINS="flink-s3.jar")

    assert image.files() == before  # the image's own file system is read-only
    folder = image.environment()["FLINK_PLUGINS_DIR"]
    found = {
        name: sorted(os.listdir(os.path.join(folder, name))) for name in sorted(os.listdir(folder))
    }
    assert found == {"flink-s3": ["flink-s3.jar"], "metrics-prometheus": ["reporter.jar"]}
    assert os.path.exists(os.path.join(folder, "flink-s3/flink-s3.jar"))


def test_a_container_that_starts_again_finds_its_folder_as_it_left_it(image):
    image.with_entrypoint().start("", ENABLE_BUILT_IN_PLUGINS="flink-s3.jar")
    image.start("", ENABLE_BUILT_IN_PLUGINS="flink-s3.jar")

    assert not image.failed, image.said


def test_a_jvm_starts_from_the_images_archive_of_classes(image):
    image.put("opt/flink/weir/tm.jsa")

    image.start("")

    archive = "-XX:SharedArchiveFile=/opt/flink/weir/tm.jsa"
    assert image.arguments()[: len(OPTIONS) + 1] == [*OPTIONS, archive]


def test_the_jar_is_linked_and_all_other_jars_of_usrlib_are_on_the_class_path(image):
    for name in ("job.jar", "lib/a library.jar", "lib/deep/er.jar", "notes.txt"):
        image.put(f"opt/flink/usrlib/{name}")

    image.start(provide_jar(None))

    link = image.root / "tmp/weir/flink-web-upload/weir_job.jar"
    assert link.resolve() == image.root / "opt/flink/usrlib/job.jar"
    assert image.arguments()[-2:] == [
        "-D",
        "pipeline.classpaths=file:/opt/flink/usrlib/lib/a%20library.jar"
        ";file:/opt/flink/usrlib/lib/deep/er.jar",
    ]


def test_a_thin_jar_that_is_named_has_its_libraries_beside_it(image):
    for name in ("job.jar", "kafka.jar"):
        image.put(f"opt/flink/usrlib/{name}")

    image.start(provide_jar("/opt/flink/usrlib/job.jar", class_path="file:/mine/its.jar"))

    assert image.arguments()[-1] == (
        "pipeline.classpaths=file:/mine/its.jar;file:/opt/flink/usrlib/kafka.jar"
    )


def test_a_pyflink_program_is_run_by_flinks_jar_whatever_its_version(image):
    image.put("opt/flink/opt/flink-python-2.3.0.jar")

    image.start(provide_jar(PYTHON_JAR))

    link = image.root / "tmp/weir/flink-web-upload/weir_job.jar"
    assert link.resolve() == image.root / "opt/flink/opt/flink-python-2.3.0.jar"
    assert image.environment()["FLINK_OPT_DIR"] == str(image.root / "opt/flink/opt")


@pytest.mark.parametrize("named", [None, "python3"])
def test_an_image_without_pyflink_is_refused_with_the_interpreter_that_was_asked(image, named):
    image.put("opt/flink/opt/flink-python-2.3.0.jar")
    image.put(f"bin/{named or 'python'}", "#!/bin/sh\nexit 1\n", executable=True)

    image.start(check_python(named) + provide_jar(PYTHON_JAR))

    assert image.failed
    assert image.said.startswith("spec.flink.image: expected an image with Python and apache-flink")
    assert f"by its interpreter {named or 'python'};" in image.said


def test_an_image_with_pyflink_starts(image):
    image.put("opt/flink/opt/flink-python-2.3.0.jar")
    image.put("bin/mine", '#!/bin/sh\necho "$2" > "$ROOT/asked"\n', executable=True)

    image.start(check_python(None) + provide_jar(PYTHON_JAR), PYFLINK_CLIENT_EXECUTABLE="mine")

    assert not image.failed, image.said
    assert "pyflink.java_gateway" in (image.root / "asked").read_text()


@pytest.mark.parametrize("class_path", ["", "file:/mine/its.jar"])
def test_a_jar_that_stands_alone_has_the_class_path_that_the_user_gave(image, class_path):
    image.put("opt/flink/usrlib/job.jar")

    image.start(provide_jar(None, class_path=class_path))

    given = ["-D", f"pipeline.classpaths={class_path}"] if class_path else []
    assert image.arguments()[-3 - len(given) :] == ["Main", "--configDir", "/conf", *given]


@pytest.mark.parametrize(
    ("jar", "there", "sentence"),
    [
        ("/opt/flink/usrlib/job.jar", [],
         "spec.flink.job.jar: expected /opt/flink/usrlib/job.jar in the image, got nothing that can"
         " be read; correct its path, or put it there"),
        (None, [],
         "spec.flink.job.jar: expected one jar in /opt/flink/usrlib of the image, got nothing that"
         " can be read; name the one to run"),
        (PYTHON_JAR, [],
         "spec.flink.job.python: expected /opt/flink/opt/flink-python-*.jar in the image, got"
         " nothing that can be read; put it there"),
        (None, ["a.jar", "b.jar"],
         "spec.flink.job.jar: expected one jar in /opt/flink/usrlib of the image, got"
         " /opt/flink/usrlib/a.jar /opt/flink/usrlib/b.jar; name the one to run"),
    ],
)  # fmt: skip
def test_a_jar_that_is_not_there_is_told_by_what_is_there_in_its_place(image, jar, there, sentence):
    for name in there:
        image.put(f"opt/flink/usrlib/{name}")

    image.start(provide_jar(jar))

    assert image.failed
    assert image.said.replace(str(image.root), "").strip() == sentence


def job_manager(asked):
    """Return what answers a TaskManager as Flink does; its slot is free from the third question on.

    Args:
        asked: Takes the paths that were asked for.
    """

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = f'{{"id":"trips-1","slotsNumber":1,"freeSlots":{int(len(asked) >= 3)}}}'
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format, *args):  # noqa: A002
            """Say nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Answer)


def hold(port):
    script = hold_script("127.0.0.1", port)
    return subprocess.run(
        ["bash", "-c", script], env={**os.environ, "POD_NAME": "trips-1"}, timeout=60, check=False
    )


def test_a_pod_is_held_until_its_slot_is_free():
    asked: list[str] = []
    with job_manager(asked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hold(server.server_port)
        server.shutdown()

    assert asked == ["/taskmanagers/trips-1"] * 3


def test_no_pod_is_held_for_a_job_manager_that_does_not_answer():
    asked: list[str] = []
    with job_manager(asked) as server:
        port = server.server_port

    hold(port)  # would run into its time limit

    assert asked == []


def written(**flink):
    """Keys that Weir writes where a JobManager and a TaskManager use all that they can."""
    config = flink.pop("config", {})
    spec = {"flink": {"image": "w/x:1", "storage": {"uri": "s3://b/x"}, "config": config, **flink}}
    app = parse_manifest(a_manifest(**spec))
    pods = replace(FlinkPods.of(app, uid="u", controller_namespace="w"), results="r")
    assert pods.survives
    files = job_manager_files(pods), task_manager_files(pods, "job", "small")
    return [yaml.safe_load(each["config.yaml"]) for each in files]


OF_THE_USERS_MEMORY = "taskmanager.memory."
"""These follow the user's keys (`flink.memory`)."""


def test_what_weir_overwrites_of_the_users_keys_it_refuses():
    ours = {key for configuration in written() for key in configuration}

    lost = [
        key
        for key in sorted(ours)
        if not key.startswith(OF_THE_USERS_MEMORY)
        # Weir leaves a job alone whose user keeps its results elsewhere.
        and key not in RESULTS_PATHS
        and any(each.get(key) != "mine" for each in written_with(key, ours))
    ]

    assert [key for key in lost if remedy_for_owned(key) is None] == []
    assert len(lost) > 25


def written_with(key, ours):
    """What is written where a user's value of `key` is not refused, of the files that have it."""
    with patch.object(streamapp_flink, "remedy_for_owned", lambda key: None):
        return [each for each in written(config={key: "mine"}) if key in ours and key in each]


def test_flink_works_in_the_users_folders():
    for each in written(config={"io.tmp.dirs": "/data/tmp"}):
        assert each["io.tmp.dirs"] == "/data/tmp"
    for each in written(config={"taskmanager.tmp.dirs": "/data/tmp"}):
        assert each["io.tmp.dirs"] == "/data/tmp"
    for each in written():
        assert each["io.tmp.dirs"] == "/tmp"

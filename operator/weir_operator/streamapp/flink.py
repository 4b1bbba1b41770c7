"""The section `flink`: the job, its image, and the storage of its state."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from weir_operator.flink_keys import owned_key_cel, remedy_for_owned
from weir_operator.streamapp.pod_template import PodTemplate
from weir_operator.streamapp.quantities import Cpu, Memory
from weir_operator.streamapp.section import Checked, Name, Rule, validations
from weir_simulator.validation import Mistake, Section, refusal

_REPOSITORY = "[a-z0-9]+([._-]+[a-z0-9]+)*"
IMAGE = (
    r"(([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/)?"
    f"{_REPOSITORY}(/{_REPOSITORY})*"
    "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*:[0-9A-Fa-f]{32,})?"
)
"""Pattern of an image's name: registry, repository, tag and digest."""
_EXPECTED_IMAGE = "the name of a container image, such as example/trips:1.4"
_REMEDY_FOR_IMAGE = (
    "correct it, a repository may contain only lower-case letters, digits, '.', '_' and '-'"
)
_EXPECTED_JAR = "a path, such as /opt/flink/usrlib/trips.jar"
_REMEDY_FOR_JAR = "put the jar into the image, because Weir does not download jars"
_JAVA_OPTIONS = "env.java.opts"


def _check_image(image: str) -> str:
    if not re.fullmatch(IMAGE, image):
        raise refusal(_EXPECTED_IMAGE, _REMEDY_FOR_IMAGE)
    return image


def _check_jar(jar: str) -> str:
    if "://" in jar:
        raise refusal(_EXPECTED_JAR, _REMEDY_FOR_JAR)
    return jar


class Sql(Checked):
    """A SQL script; set exactly one of the fields."""

    rules = (
        Rule(
            rule="has(self.file) != has(self.script)",
            holds=lambda self: (self.file is None) != (self.script is None),
            shows=lambda self: sorted(self.model_fields_set) or None,
            expected="exactly one of file and script",
            remedy="set one of them",
        ),
    )

    file: str | None = Field(
        default=None, min_length=1, max_length=1024, examples=["/opt/flink/usrlib/query.sql"]
    )
    """Path of the script: in the JobManager's container, that is, in the image or in a volume of
    `podTemplate`, or with `weir local`, relative to the manifest. A changed file takes effect when
    the job is submitted again; `weir local` reads it with the manifest. A changed `script` is an
    upgrade. May not be set together with `script`."""

    script: str | None = Field(
        default=None, min_length=1, max_length=65536, examples=["INSERT INTO counts SELECT ..."]
    )
    """Text of the script. May not be set together with `file`."""


class Python(Section):
    """A PyFlink program."""

    file: str = Field(min_length=1, max_length=1024, examples=["/opt/flink/usrlib/job.py"])
    """Path of the program: in the image, which must have Python and PyFlink, or with `weir local`,
    relative to the manifest; there, `python.client.executable` in `flink.config` names the
    interpreter."""


class Job(Checked):
    """The program to run: a jar, a SQL script or a PyFlink program."""

    rules = (
        Rule(
            rule="[has(self.jar), has(self.sql), has(self.python)].filter(x, x).size() <= 1",
            holds=lambda self: len(self.programs) <= 1,
            shows=lambda self: self.programs,
            expected="at most one of jar, sql and python",
            remedy="keep the one to run",
        ),
        Rule(
            rule="!has(self.entryClass) || !has(self.sql) && !has(self.python)",
            holds=lambda self: self.entry_class is None or not (self.sql or self.python),
            field=".entryClass",
            expected="no value together with sql or python",
            remedy="remove it",
        ),
        Rule(
            rule="!has(self.args) || self.args.size() == 0 || !has(self.sql)",
            holds=lambda self: not (self.args and self.sql),
            field=".args",
            expected="no value together with sql",
            remedy="remove it",
        ),
    )

    jar: Annotated[str, AfterValidator(_check_jar)] | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        examples=["/opt/flink/usrlib/trips.jar"],
        json_schema_extra=validations(
            Rule(rule="!self.contains('://')", expected=_EXPECTED_JAR, remedy=_REMEDY_FOR_JAR)
        ),
    )
    """Path of the job's jar: inside the image or, with `weir local`, relative to the manifest.
    Without `image`, one of `jar`, `sql` and `python` is required. If unset, and so are `sql` and
    `python`, defaults to the only jar in `/opt/flink/usrlib`."""

    sql: Sql | None = Field(default=None, examples=[{"file": "query.sql"}])
    """A SQL script that runs as one streaming job, with one `INSERT INTO` or one statement set.
    Weir runs the script again at each restart. Connectors are jars in `/opt/flink/usrlib`, or in
    `pipeline.classpaths` of `flink.config`. May not be set together with `jar`, `python`,
    `entryClass` or `args`."""

    python: Python | None = Field(default=None, examples=[{"file": "job.py"}])
    """A PyFlink program. May not be set together with `jar`, `sql` or `entryClass`."""

    entry_class: str | None = Field(
        default=None, min_length=1, max_length=512, examples=["example.Trips"]
    )
    """Class whose `main` to run. May not be set together with `sql` or `python`. If unset, defaults
    to the one that the jar's manifest names."""

    args: tuple[str, ...] = Field(default=(), max_length=256, examples=[["--window", "5m"]])
    """Arguments of the program. Weir adds others after them for the parallelism of each operator.
    May not be set together with `sql`. If unset, defaults to none."""

    initial_savepoint: str | None = Field(
        default=None, max_length=2048, examples=["s3://bucket/savepoints/42"]
    )
    """Path of the savepoint or checkpoint from which the first start resumes. Weir reads it again
    only when `restoreNonce` changes. If unset, the job starts with empty state."""

    restore_nonce: int = Field(default=0, ge=0, le=2**31 - 1, examples=[1])
    """A new value stops the job with a savepoint and starts it from `initialSavepoint`, even if
    there is newer state. Use it to go back to an older state, to run a finished job again, or to
    continue after the state of a job was lost. If unset, defaults to 0. Minimum: 0."""

    @property
    def programs(self) -> list[str]:
        """Those of jar, sql and python that are set: which program to run."""
        return [name for name in ("jar", "sql", "python") if getattr(self, name) is not None]


class Storage(Checked):
    """Where Flink stores checkpoints and savepoints; set exactly one of the fields."""

    rules = (
        Rule(
            rule="has(self.claim) != has(self.uri)",
            holds=lambda self: (self.claim is None) != (self.uri is None),
            shows=lambda self: self.model_dump(mode="json", exclude_none=True) or None,
            expected="exactly one of claim and uri",
            remedy="set one of them",
        ),
    )

    claim: Name | None = Field(default=None, examples=["trips-state"])
    """Name of a PersistentVolumeClaim that JobManager and TaskManagers can both mount.
    May not be set together with `uri`."""

    uri: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        examples=["s3://bucket/trips"],
    )
    """Folder in a file system that Flink supports. May not be set together with `claim`."""


class RefKind(StrEnum):
    """What runs an external job."""

    FLINK_DEPLOYMENT = "FlinkDeployment"
    FLINK_BLUE_GREEN_DEPLOYMENT = "FlinkBlueGreenDeployment"
    DEPLOYMENT = "Deployment"


class FlinkRef(Section):
    """An external job, which Weir does not run."""

    kind: RefKind = Field(examples=["FlinkDeployment"])
    """Kind of the resource that runs the job: a FlinkDeployment of the Flink Kubernetes Operator, a
    FlinkBlueGreenDeployment, of whose two clusters Weir follows the active one, or the Deployment
    of a JobManager. Mode Auto needs a FlinkDeployment. Format: `FlinkDeployment`,
    `FlinkBlueGreenDeployment` or `Deployment`."""

    name: Name = Field(examples=["trips"])
    """Name of that resource, in the StreamApp's namespace."""


class JobManager(Section):
    """The JobManager's container; its CPU costs the same as a replica's."""

    pool: Name | None = Field(default=None, examples=["small"])
    """Node pool that the JobManager runs in. If unset, defaults to the first of `nodePools`."""

    cpu: Cpu = Field(default=Cpu("500m"), examples=["500m"])
    """CPU of its container. If unset, defaults to 500m. Format: CPU quantity."""

    memory: Memory = Field(default=Memory("1Gi"), examples=["1Gi"])
    """Memory of its container. If unset, defaults to 1Gi. Format: memory quantity."""


def _not_beside_ref(field: str, name: str) -> Rule:
    def find_content(flink: Flink) -> object:
        # Names only: the values of config and podTemplate may be secret.
        written = flink.model_dump(mode="json", by_alias=True, include={name}, exclude_unset=True)
        value = written.get(field)
        return value if value is None or isinstance(value, str) else list(value)

    return Rule(
        rule=f"!has(self.ref) || !has(self.{field})",
        holds=lambda self: self.ref is None or getattr(self, name) is None,
        shows=find_content,
        field=f".{field}",
        expected="no value together with flink.ref",
        remedy=f"remove {field}, because Weir does not run this job, or remove ref",
    )


class Flink(Checked):
    """The Flink job: either a job that Weir runs, or a `ref` to an external job."""

    rules = (
        Rule(
            rule="has(self.ref) || has(self.image) || has(self.job) && (has(self.job.jar)"
            " || has(self.job.sql) || has(self.job.python))",
            holds=lambda self: bool(self.ref or self.image or (self.job and self.job.programs)),
            shows=lambda self: None,
            expected="image, a program in job (jar, sql or python) or ref",
            remedy="add the job to run",
        ),
        _not_beside_ref("image", "image"),
        _not_beside_ref("job", "job"),
        _not_beside_ref("storage", "storage"),
        _not_beside_ref("podTemplate", "pod_template"),
        _not_beside_ref("config", "config"),
    )

    image: Annotated[str, AfterValidator(_check_image)] | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        examples=["example/trips:1.4"],
        json_schema_extra=validations(
            Rule(
                rule=f"self.matches(r'^{IMAGE}$')",
                expected=_EXPECTED_IMAGE,
                remedy=_REMEDY_FOR_IMAGE,
            )
        ),
    )
    """Container image with Flink 2.x and the job's jar; for an SQL script, Flink's official image
    is enough. May not be set together with `ref`. Not needed for `weir local` if `job` has a
    program."""

    job: Job | None = Field(default=None, examples=[{"jar": "/opt/flink/usrlib/trips.jar"}])
    """The program. May not be set together with `ref`. If unset, defaults to the only jar of the
    image."""

    max_parallelism: int = Field(
        default=720,
        ge=1,
        le=32768,
        examples=[720],
        json_schema_extra=validations(
            Rule(
                rule="self == oldSelf",
                expected="the value of the first start, because it determines the key groups of"
                " the state",
                remedy="set it back, or create a StreamApp with another name",
            )
        ),
    )
    """Number of key groups, and so the maximum number of replicas of a keyed operator. Cannot be
    changed later; at least the largest `maxReplicas`; best with many divisors. If unset, defaults
    to 720. Minimum: 1."""

    storage: Storage | None = Field(default=None, examples=[{"claim": "trips-state"}])
    """Where Flink stores checkpoints and savepoints. May not be set together with `ref`. If unset,
    defaults to a folder of Weir with `weir local`; on Kubernetes, the state must then fit into the
    JobManager's memory."""

    pod_template: PodTemplate | None = Field(
        default=None, examples=[{"spec": {"serviceAccountName": "trips"}}]
    )
    """Template for every pod of the job (secrets, service account, volumes), as in a Kubernetes
    Deployment: `metadata` and `spec`. May not be set together with `ref`. If unset, the pods have
    only what Weir sets."""

    config: dict[str, Annotated[str, Field(max_length=8192)]] | None = Field(
        default=None,
        max_length=200,
        json_schema_extra=validations(
            Rule(
                rule=f"self.all(k, !({owned_key_cel()}))",
                expected="keys that Weir does not set",
                got=f"self.filter(k, {owned_key_cel()})[0]",
                remedy="remove them, because Weir sets them to pin, scale and measure the job",
            )
        ),
    )
    """Flink's configuration, passed on unchanged; it wins over what Weir recommends, also under the
    older names that Flink has for keys. Values are text, so put numbers in quotes. Weir rejects
    keys that it sets itself. With `weir local`, `io.tmp.dirs` has no effect. May not be set
    together with `ref`. If unset, defaults to none."""

    report_keys: bool = False
    """Whether Weir names the keys that bring most of the records, in status, reports and
    `weir graph --keys`; without it, they have hashes. Keys can be personal data. Takes effect when
    the job is started next; has no effect with `ref`. If unset, defaults to false."""

    job_manager: JobManager = JobManager()
    """The JobManager's container; changing it is an upgrade. If unset, it runs in the first of
    `nodePools`."""

    ref: FlinkRef | None = Field(
        default=None, examples=[{"kind": "FlinkDeployment", "name": "trips"}]
    )
    """An external job, which Weir does not run. In mode Advise, Weir only reads it; in mode Auto,
    it sets the parallelism of the vertices of a FlinkDeployment's job. May not be set together
    with `image`, `job`, `storage`, `podTemplate` or `config`."""

    def mistakes(self) -> Iterator[Mistake]:
        """Yield those between the fields, and those of single keys of Flink's configuration."""
        yield from super().mistakes()
        for key, value in (self.config or {}).items():
            remedy = remedy_for_owned(key)
            if remedy is not None:
                yield Mistake(("config", key), key, "a key that Weir does not set itself", remedy)
            elif key.startswith(_JAVA_OPTIONS) and not _is_closed(value):
                yield Mistake(
                    ("config", key),
                    "an open quote",
                    "JVM options, quoted as in a shell",
                    "close the quote, or put a backslash before it",
                )


def _is_closed(options: str) -> bool:
    try:
        shlex.split(options)
    except ValueError:
        return False
    return True

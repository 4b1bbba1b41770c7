"""The section `flink`: the job, where it runs from and where its state lives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from weir_operator.streamapp.pod_template import (
    PodTemplate,
    owned_key_cel,
    remedy_for_owned,
)
from weir_operator.streamapp.quantities import Cpu, Memory
from weir_operator.streamapp.section import (
    Mistake,
    Name,
    Rule,
    Section,
    refusal,
    refuse,
    validations,
)

_REPOSITORY = "[a-z0-9]+([._-]+[a-z0-9]+)*"
IMAGE = (
    r"(([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/)?"
    f"{_REPOSITORY}(/{_REPOSITORY})*"
    "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*:[0-9A-Fa-f]{32,})?"
)
"""Pattern of an image's name: registry, repository, tag and digest."""
_EXPECTED_IMAGE = "the name of a container image, such as example/trips:1.4"
_REMEDY_FOR_IMAGE = "correct it, a repository has lower-case letters, digits, '.', '_' and '-' only"
_EXPECTED_JAR = "a path, such as /opt/flink/usrlib/trips.jar"
_REMEDY_FOR_JAR = "put the jar into the image, Weir fetches none"
_JAVA_OPTIONS = "env.java.opts"

_NOT_BESIDE_REF = ("image", "job", "storage", "podTemplate", "config")


def _check_image(image: str) -> str:
    if not re.fullmatch(IMAGE, image):
        raise refusal(_EXPECTED_IMAGE, _REMEDY_FOR_IMAGE)
    return image


def _check_jar(jar: str) -> str:
    if "://" in jar:
        raise refusal(_EXPECTED_JAR, _REMEDY_FOR_JAR)
    return jar


class Delivery(StrEnum):
    """What a job's sinks bear when records are replayed."""

    AT_LEAST_ONCE = "atLeastOnce"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


class Job(Section):
    """The program that is run."""

    jar: Annotated[str, AfterValidator(_check_jar)] | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        examples=["/opt/flink/usrlib/trips.jar"],
        json_schema_extra=validations(
            Rule(rule="!self.contains('://')", expected=_EXPECTED_JAR, remedy=_REMEDY_FOR_JAR)
        ),
    )
    """Path of the job's jar: inside the image, or, on one machine, relative to the manifest's file.
    May be left out only with `image`. If unset, defaults to the one jar in `/opt/flink/usrlib`."""

    entry_class: str | None = Field(
        default=None, min_length=1, max_length=512, examples=["example.Trips"]
    )
    """Class whose `main` is run. If unset, defaults to the one that the jar's manifest names."""

    args: tuple[str, ...] = Field(default=(), max_length=256, examples=[["--window", "5m"]])
    """Arguments of the program, before those that Weir adds for the parallelism of each operator.
    If unset, defaults to none."""

    initial_savepoint: str | None = Field(
        default=None, max_length=2048, examples=["s3://bucket/savepoints/42"]
    )
    """Path of the savepoint or checkpoint that the very first start resumes from; read again only
    when `restoreNonce` changes. If unset, that start begins with empty state."""

    restore_nonce: int = Field(default=0, ge=0, le=2**31 - 1, examples=[1])
    """A new value stops the job with a savepoint and starts it from `initialSavepoint`, whatever
    newer state there is. It is the way to go back to older state, to run a job again that came to
    its own end, and to go on after the state of a job was lost. If unset, defaults to 0.
    Minimum: 0."""


class Storage(Section):
    """Where checkpoints and savepoints live; exactly one of its fields is set."""

    model_config = Section.model_config | {
        "json_schema_extra": validations(
            Rule(
                rule="has(self.claim) != has(self.uri)",
                expected="exactly one of claim and uri",
                remedy="keep the one that is meant",
            )
        )
    }

    claim: Name | None = Field(default=None, examples=["trips-state"])
    """Name of a PersistentVolumeClaim that JobManager and TaskManagers can both mount.
    May not be set together with `uri`."""

    uri: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        examples=["s3://bucket/trips"],
    )
    """Folder in a file system that Flink knows. May not be set together with `claim`."""

    @model_validator(mode="after")
    def _check_one_place(self) -> Self:
        if (self.claim is None) == (self.uri is None):
            got = self.model_dump(mode="json", exclude_none=True)
            refuse([Mistake((), got, "exactly one of claim and uri", "keep the one that is meant")])
        return self


class RefKind(StrEnum):
    """What runs a job that is only advised."""

    FLINK_DEPLOYMENT = "FlinkDeployment"
    DEPLOYMENT = "Deployment"


class FlinkRef(Section):
    """A job that somebody else runs."""

    kind: RefKind = Field(examples=["FlinkDeployment"])
    """Kind of the resource that runs the job: a FlinkDeployment of the Flink Kubernetes Operator,
    or the Deployment of a JobManager. Format: `FlinkDeployment` or `Deployment`."""

    name: Name = Field(examples=["trips"])
    """Its name, in the StreamApp's own namespace."""


class JobManager(Section):
    """The JobManager's container, which is paid for like a replica."""

    pool: Name | None = Field(default=None, examples=["small"])
    """Node pool that the JobManager runs in. If unset, defaults to the first of `nodePools`."""

    cpu: Cpu = Field(default=Cpu("500m"), examples=["500m"])
    """CPU of its container. If unset, defaults to 500m. Format: CPU quantity."""

    memory: Memory = Field(default=Memory("1Gi"), examples=["1Gi"])
    """Memory of its container. If unset, defaults to 1Gi. Format: memory quantity."""


class Flink(Section):
    """The Flink job; either the job itself, or a `ref` to one that somebody else runs."""

    model_config = Section.model_config | {
        "json_schema_extra": validations(
            Rule(
                rule="has(self.ref) || has(self.image) || (has(self.job) && has(self.job.jar))",
                expected="image, job.jar or ref",
                remedy="say what is to be run",
            ),
            *(
                Rule(
                    rule=f"!has(self.ref) || !has(self.{name})",
                    field=f".{name}",
                    expected="nothing beside flink.ref",
                    remedy=f"remove {name}, which belongs to whoever runs the job, or remove ref",
                )
                for name in _NOT_BESIDE_REF
            ),
        )
    }

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
    """Container image with Flink 2.x and the job's jar inside. May not be set together with `ref`.
    May be left out where `job.jar` is given and the job runs on one machine with `weir local`."""

    job: Job | None = Field(default=None, examples=[{"jar": "/opt/flink/usrlib/trips.jar"}])
    """The program. May not be set together with `ref`. If unset, defaults to the one jar of the
    image."""

    max_parallelism: int = Field(
        default=720,
        ge=1,
        le=32768,
        examples=[720],
        json_schema_extra=validations(
            Rule(
                rule="self == oldSelf",
                expected="the value of the first start, state is split by it for ever",
                remedy="set it back, or make a StreamApp of another name",
            )
        ),
    )
    """Number of key groups, the most replicas that a keyed operator can ever use. Cannot be changed
    later; at least every operator's `maxReplicas`; best with many divisors. If unset, defaults to
    720. Minimum: 1."""

    delivery: Delivery = Delivery.AT_LEAST_ONCE
    """What the sinks bear when records are replayed after a failure. If unset, defaults to
    atLeastOnce. Format: `atLeastOnce`, `idempotent` or `transactional`."""

    storage: Storage | None = Field(default=None, examples=[{"claim": "trips-state"}])
    """Where checkpoints and savepoints live. May not be set together with `ref`. If unset, defaults
    to Weir's own folder on one machine; on Kubernetes state must then be small enough to live in
    the JobManager."""

    pod_template: PodTemplate | None = Field(
        default=None, examples=[{"spec": {"serviceAccountName": "trips"}}]
    )
    """Template that every pod of the job is made from (secrets, service account, volumes), as in a
    Kubernetes Deployment: `metadata` and `spec`. May not be set together with `ref`. If unset, pods
    get nothing more."""

    config: dict[str, Annotated[str, Field(max_length=8192)]] | None = Field(
        default=None,
        max_length=200,
        json_schema_extra=validations(
            Rule(
                rule=f"self.all(k, !({owned_key_cel()}))",
                expected="keys that Weir does not own",
                got=f"self.filter(k, {owned_key_cel()})[0]",
                remedy="leave them out, Weir sets them itself: jobs are pinned, scaled and"
                " measured by them",
            )
        ),
    )
    """Flink's configuration, passed on as it is; values are text, so numbers stand in quotes. Keys
    that Weir owns are refused. May not be set together with `ref`. If unset, defaults to none."""

    job_manager: JobManager = JobManager()
    """The JobManager's container; a change of it is an upgrade. If unset, runs in the first of
    `nodePools`."""

    ref: FlinkRef | None = Field(
        default=None, examples=[{"kind": "FlinkDeployment", "name": "trips"}]
    )
    """A job that somebody else runs, to be advised only: `mode` must then be Advise or Off. May not
    be set together with `image`, `job`, `storage`, `podTemplate` or `config`."""

    @model_validator(mode="after")
    def _check_fields_agree(self) -> Self:
        refuse((*self._mistakes_of_source(), *self._mistakes_of_config()))
        return self

    def _mistakes_of_source(self) -> Iterator[Mistake]:
        written = self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
        if self.ref is not None:
            for name in _NOT_BESIDE_REF:
                if name in written:
                    yield Mistake(
                        (name,),
                        # Names only: the values of config and podTemplate may be secret.
                        value if isinstance(value := written[name], str) else list(value),
                        "nothing beside flink.ref",
                        f"remove {name}, which belongs to whoever runs the job, or remove ref",
                    )
        elif self.image is None and (self.job is None or self.job.jar is None):
            yield Mistake(
                (),
                None,
                "image, job.jar or ref",
                "say what is to be run, such as job: {jar: trips.jar}",
            )

    def _mistakes_of_config(self) -> Iterator[Mistake]:
        for key, value in (self.config or {}).items():
            remedy = remedy_for_owned(key)
            if remedy is not None:
                yield Mistake(("config", key), key, "a key that Weir does not own", remedy)
            elif key.startswith(_JAVA_OPTIONS) and not _is_closed(value):
                yield Mistake(
                    ("config", key),
                    "an open quote",
                    "options of the JVM as a shell reads them",
                    "close the quote, or put a backslash before it",
                )


def _is_closed(options: str) -> bool:
    """Return whether every quote in the text is closed."""
    try:
        shlex.split(options)
    except ValueError:
        return False
    return True

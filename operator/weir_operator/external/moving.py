"""Moves the job of a FlinkDeployment to a StreamApp, and back, for `weir adopt`.

The steps of a move:

    suspend   the FlinkDeployment, with a savepoint; its annotation `weir.dev/move` holds the
              StreamApp and everything else that another process needs to go on, or back
    delete    the JobManager that the operator leaves: without high availability, it would run the
              job once more when its pod is lost (FLINK-41262)
    create    the StreamApp, which starts from that savepoint; the annotation gets its uid
    wait      until its job runs and, if records arrived before, until they arrive again; if none
              do, the move ends with a warning, because there may be none at this time
    finish    the annotation says that the move is done, so that nothing repeats it

If a step fails, the same steps are taken back: the StreamApp is stopped with a savepoint and
deleted, and only when it is gone, the FlinkDeployment runs again. It starts from the StreamApp's
savepoint if that job has run (`initialSavepointPath` and `savepointRedeployNonce`), else from its
own. No savepoint is deleted.

A process that dies leaves the annotation, so the same command continues. So it does where the API
server was away for too long. Two jobs never run at the same time: the FlinkDeployment runs again
only where no StreamApp of that name is left, be it the one with the noted uid or another.

Source: apache/flink-kubernetes-operator, `AbstractJobReconciler` (`reconcileSpecChange`,
`redeployWithSavepoint`) and `NativeFlinkService.cancelJob`, July 2026.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from weir_operator.clock import Clock, wait_until
from weir_operator.errors import InvalidStreamAppError, PermanentError, TemporaryError
from weir_operator.external.flink_deployment import GROUP_VERSION, PATH, ClusterWriter
from weir_operator.flink.transport import Json
from weir_operator.kubernetes.api.client import ConflictError, NotFoundError
from weir_operator.kubernetes.api.objects import Body, Key, collection
from weir_operator.streamapp.loading import parse_manifest

MOVE = "weir.dev/move"
"""Annotation of a FlinkDeployment whose job is being moved, or was."""
DELETED_WITHIN = 720.0
"""Seconds that a StreamApp may take to be deleted: Weir tries to take a savepoint for 600 s."""
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RIGHTS = (
    ("flink.apache.org", "flinkdeployments", "patch"),
    ("apps", "deployments", "delete"),
    ("weir.dev", "streamapps", "create"),
    ("weir.dev", "streamapps", "patch"),
    ("weir.dev", "streamapps", "delete"),
)
"""API group, resource and verb of everything that a move and the way back need."""
_NO_SAVEPOINT = ("", "KUBERNETES_OPERATOR_LAST_STATE")
"""What the operator writes instead of a savepoint's path."""

T = TypeVar("T")


class MoverApi(ClusterWriter, Protocol):
    """The part of `KubernetesApi` that a move needs."""

    async def create(self, path: str, body: Body) -> Body:
        """Make an object in a collection."""
        ...

    async def patch(self, path: str, body: Body) -> Body:
        """Merge `body` into an object."""
        ...

    async def delete(self, path: str, *, uid: str | None = ...) -> None:
        """Delete an object, if it has this uid."""
        ...


class MoveRecord(BaseModel):
    """What another process needs to continue a move, as JSON in an annotation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stream_app: dict[str, Any]
    """The manifest, without the savepoint."""
    upgrade_mode: str | None
    """`spec.job.upgradeMode` of the FlinkDeployment before the move; `None` if it was not set."""
    savepoint_before: str
    """Path in its status before the move; empty if there was none."""
    had_records: bool = Field(validation_alias=AliasChoices("had_records", "flows"))
    """Whether records arrived before the move; older records call it `flows`."""
    savepoint: str = ""
    """With which the StreamApp starts; empty until it is known."""
    uid: str = ""
    """Of the StreamApp that the move created; empty before that, and in older records."""
    done: bool = False
    """Whether the move was completed."""
    back: bool = False
    """Whether the job is being moved back."""
    resume_from: str = ""
    """Newer state, with which the FlinkDeployment starts on the way back; empty for its own."""

    @property
    def name(self) -> str:
        """Of the StreamApp."""
        return str(self.stream_app["metadata"]["name"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A move that was completed."""

    savepoint: str
    stream_app: str
    """Its name."""
    already: bool = False
    """Whether it had been completed before, so that nothing was changed."""


class Mover:
    """Moves the job of one FlinkDeployment."""

    def __init__(
        self,
        api: MoverApi,
        namespace: str,
        name: str,
        *,
        clock: Clock,
        say: Callable[[str], None],
        timeout: float,
        period: float = 2.0,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            api: The API server, asked as the user may.
            namespace: Of the FlinkDeployment.
            name: Its name.
            clock: What time it is.
            say: Takes a sentence about each step.
            timeout: Seconds for each of these: the savepoint, the start of the StreamApp, the stop
                of its job, the restart of the FlinkDeployment.
            period: Seconds between two checks.
        """
        self._api = api
        self._namespace = namespace
        self._name = name
        self._path = PATH.format(namespace, name)
        self._clock = clock
        self._say = say
        self._timeout = timeout
        self._period = period

    async def record(self) -> MoveRecord | None:
        """Return the record of a move that was begun; `None` if there is none.

        Raises:
            PermanentError: There is no such FlinkDeployment, or its annotation cannot be read.
            TemporaryError: The API server did not answer.
        """
        return _record_of(await self._ask(lambda: self._api.get(self._path)))

    async def find_stops(self, manifest: Body) -> tuple[str, ...]:
        """Return what stops the move in the cluster, a sentence each; changes nothing.

        Args:
            manifest: Of the StreamApp, without the savepoint.

        Raises:
            PermanentError: The StreamApps of the namespace may not be listed.
            TemporaryError: The API server did not answer.
        """
        for find in (self._missing_rights, self._other_apps, self._refusals):
            found = await find(manifest)
            if found:
                return tuple(found)
        return ()

    async def _other_apps(self, manifest: Body) -> list[str]:
        return [
            f"StreamApp {app['metadata']['name']} exists already: expected none of this name, and "
            f"none with flink.ref to FlinkDeployment {self._name}; delete it (one with flink.ref "
            "leaves the job as it is)"
            for app in await self._api.list(collection(self._namespace))
            if app["metadata"]["name"] == manifest["metadata"]["name"]
            or (app["spec"].get("flink", {}).get("ref") or {}).get("name") == self._name
        ]

    async def _missing_rights(self, _: Body) -> list[str]:
        missing = []
        for group, resource, verb in _RIGHTS:
            asked = {
                "group": group,
                "resource": resource,
                "verb": verb,
                "namespace": self._namespace,
            }
            answer = await self._api.create(
                _REVIEWS,
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": asked},
                },
            )
            if not answer["status"]["allowed"]:
                missing.append(
                    f"Expected the right to {verb} {resource} in namespace {self._namespace}, got "
                    "none; grant it, or use the credentials of somebody who has it"
                )
        return missing

    async def _refusals(self, manifest: Body) -> list[str]:
        """Return why the API server, or Weir, would refuse what the move is going to write."""
        found = []
        try:
            parse_manifest(manifest)
            path = f"{collection(self._namespace)}/{manifest['metadata']['name']}"
            await self._api.apply(path, manifest, "weir-adopt", force=False, dry_run=True)
        except InvalidStreamAppError as error:
            found.append(f"The StreamApp is not valid: {error}")
        except PermanentError as error:
            found.append(f"The StreamApp cannot be created: {error}")
        # What the API server does not know, it would drop without a word, and the way back with it.
        nonce = {
            "apiVersion": GROUP_VERSION,
            "kind": "FlinkDeployment",
            "metadata": {"name": self._name},
            "spec": {"job": {"savepointRedeployNonce": 1}},
        }
        try:
            await self._api.apply(self._path, nonce, "weir-adopt", force=True, dry_run=True)
        except PermanentError as error:
            found.append(
                "The FlinkDeployment could not be moved back: expected a Flink Kubernetes Operator "
                f"with spec.job.savepointRedeployNonce; upgrade it and its CRDs ({error})"
            )
        return found

    async def begin(self, spec: Json, manifest: Body, *, had_records: bool) -> None:
        """Suspend the FlinkDeployment with a savepoint, and note the move with it.

        Args:
            spec: Of the FlinkDeployment, as it was checked.
            manifest: Of the StreamApp, without the savepoint.
            had_records: Whether records arrive now.

        Raises:
            PermanentError: The FlinkDeployment was changed since, or may not be changed.
            TemporaryError: The API server did not answer.
        """

        async def suspend() -> bool | None:
            found = await self._api.get(self._path)
            if _record_of(found) is not None:
                return True  # by a request whose answer was lost
            if found.get("spec") != spec:
                raise PermanentError(
                    f"FlinkDeployment {self._name} was changed while it was checked; nothing was "
                    "done, run the command again"
                )
            record = MoveRecord(
                stream_app=manifest,
                upgrade_mode=spec["job"].get("upgradeMode"),
                savepoint_before=_savepoint_of(found),
                had_records=had_records,
            )
            body = {
                "metadata": {
                    "resourceVersion": found["metadata"]["resourceVersion"],
                    "annotations": {MOVE: record.model_dump_json()},
                },
                "spec": {"job": {"state": "suspended", "upgradeMode": "savepoint"}},
            }
            try:
                await self._api.patch(self._path, body)
            except ConflictError:
                return None  # the operator has written its status
            return True

        if not await self._until(suspend):
            raise TemporaryError(f"FlinkDeployment {self._name} cannot be changed; try again")
        self._say(f"Suspended FlinkDeployment {self._name}; waiting for its savepoint")

    async def resume(self, record: MoveRecord) -> Moved:
        """Take the steps of a move that was begun, those that are done excepted.

        Raises:
            PermanentError: A step failed; nothing was taken back.
            TemporaryError: The API server did not answer for too long; to be called again.
        """
        savepoint = await self._savepoint(record)
        if record.savepoint != savepoint:
            record = record.model_copy(update={"savepoint": savepoint})
            await self._note(record)
        self._say(f"The job's state is in {savepoint}")
        await self._delete_job_manager()
        uid = await self._create(record)
        if record.uid != uid:
            record = record.model_copy(update={"uid": uid})
            await self._note(record)
        await self._wait_until_it_runs(record)
        await self._note(record.model_copy(update={"done": True}))
        return Moved(savepoint=savepoint, stream_app=record.name)

    async def _savepoint(self, record: MoveRecord) -> str:
        """Wait until the job has stopped, and return its savepoint."""
        seen: Json = {}

        async def stopped() -> str | None:
            seen.update(await self._api.get(self._path))
            state = (seen.get("status") or {}).get("lifecycleState")
            if state != "SUSPENDED" or not _is_observed(seen):
                return None
            path = _savepoint_of(seen)
            if path in (*_NO_SAVEPOINT, record.savepoint_before):
                raise PermanentError(
                    f"status.jobStatus.upgradeSavepointPath of FlinkDeployment {self._name}: "
                    f"expected a new savepoint, got {path or 'nothing'}; see its events"
                )
            return path

        found = await self._until(stopped)
        if found is None:
            status = seen.get("status") or {}
            raise PermanentError(
                f"FlinkDeployment {self._name} has no savepoint after {self._timeout:g} s: "
                f"lifecycleState is {status.get('lifecycleState')}, error is "
                f"{status.get('error') or 'empty'}"
            )
        return found

    async def _delete_job_manager(self) -> None:
        """Delete the JobManager that was left, if it belongs to the FlinkDeployment."""
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{self._name}"

        async def gone() -> bool | None:
            owner = (await self._api.get(self._path))["metadata"]["uid"]
            try:
                found = (await self._api.get(path))["metadata"]
            except NotFoundError:
                return True
            if owner not in {each["uid"] for each in found.get("ownerReferences") or ()}:
                return True
            if "deletionTimestamp" not in found:
                await self._api.delete(path)
                self._say(f"Deleted the JobManager that was left, Deployment {self._name}")
            return None

        if not await self._until(gone):
            raise PermanentError(f"Deployment {self._name} is not gone after {self._timeout:g} s")

    async def _create(self, record: MoveRecord) -> str:
        """Create the StreamApp, unless it is there already; return its uid."""
        manifest, name = _with_savepoint(record), record.name
        key = Key(self._namespace, name)

        async def created() -> str | None:
            found = await self._find_app(key)
            if found is None and record.uid:
                raise PermanentError(f"StreamApp {name} was deleted during the move")
            if found is None:
                try:
                    found = await self._api.create(collection(self._namespace), manifest)
                except ConflictError:
                    return None  # made by a request whose answer was lost: look
                self._say(f"Created StreamApp {name}; waiting until its job runs")
            _check_app(found, record)
            return str(found["metadata"]["uid"])

        uid = await self._until(created)
        if uid is None:
            raise TemporaryError(f"StreamApp {name} could not be created")
        return uid

    async def _wait_until_it_runs(self, record: MoveRecord) -> None:
        name = record.name
        seen: dict[str, str] = {"state": "Weir has not written its status: does it watch here?"}

        async def running() -> Json | None:
            """Return the StreamApp's status while its job runs."""
            found = await self._api.get(Key(self._namespace, name).path)
            _check_app(found, record)
            status: Json = found.get("status") or {}
            ready = next(
                (each for each in status.get("conditions") or () if each["type"] == "Ready"), None
            )
            if ready is None:
                return None
            seen["state"] = f"{ready['reason']}: {ready['message']}"
            if ready["reason"] == "InvalidSpec":
                raise PermanentError(f"StreamApp {name}: {ready['message']}")
            return status if (ready["status"], ready["reason"]) == ("True", "JobRunning") else None

        async def gets_records() -> bool | None:
            status = await running()
            return True if status is not None and _rate_of(status) > 0 else None

        async def wait_for_job() -> None:
            if await self._until(running) is None:
                raise PermanentError(
                    f"Expected StreamApp {name} to run within {self._timeout:g} s; {seen['state']}"
                )

        await wait_for_job()
        if not record.had_records:
            self._say(f"StreamApp {name} runs; no records arrived before the move")
        elif await self._until(gets_records):
            self._say(f"StreamApp {name} runs, and records arrive")
        else:
            # A source may be silent, and the status does not show whether records wait.
            await wait_for_job()
            self._say(
                f"Warning: StreamApp {name} runs, but no record arrived within "
                f"{self._timeout:g} s, unlike before the move. If records wait in its sources, run "
                f"`weir adopt {self._name} --namespace {self._namespace} --back`"
            )

    async def move_back(self) -> str:
        """Take the move back, from wherever it is.

        Returns:
            The state with which the FlinkDeployment runs again.

        Raises:
            PermanentError: There was no move, or a step failed.
            TemporaryError: The API server did not answer for too long.
        """
        record = await self.record()
        if record is None:
            raise PermanentError(
                f"FlinkDeployment {self._name}: expected the annotation {MOVE}, which `weir adopt "
                f"{self._name} --move` writes, got none; there is no move to take back"
            )
        if not record.back:
            record = record.model_copy(update={"back": True})
            await self._note(record)
        record = await self._remove_app(record)
        await self._resume(record)
        path = record.resume_from or record.savepoint
        self._say(f"FlinkDeployment {self._name} runs again" + (f", from {path}" if path else ""))
        return path

    async def _remove_app(self, record: MoveRecord) -> MoveRecord:
        """Stop the StreamApp's job, note its state, and delete it; return the record with that."""
        name = record.name
        key = Key(self._namespace, name)

        async def find() -> tuple[Body | None]:
            return (await self._find_app(key),)

        (found,) = await self._ask(find)
        if found is None:
            if record.uid and not record.resume_from:
                self._say(
                    f"StreamApp {name} does not exist any more, so the state of its job is not "
                    "known: records that it has processed are processed again"
                )
            return record
        _check_app(found, record)
        status = found.get("status") or {}
        if (status.get("controller") or {}).get("job_id") and not record.resume_from:
            state = await self._stop_app(key)
            if state is None:
                self._say(
                    f"StreamApp {name} gave no savepoint within {self._timeout:g} s: records that "
                    "its job has processed are processed again"
                )
            elif state != record.savepoint:
                record = record.model_copy(update={"resume_from": state})
                await self._note(record)
                self._say(f"Stopped the job of StreamApp {name}; its state is in {state}")

        async def gone() -> bool | None:
            left = await self._find_app(key)
            if left is None:
                return True
            _check_app(left, record)
            if "deletionTimestamp" not in left["metadata"]:
                await self._api.delete(key.path, uid=left["metadata"]["uid"])
            return None

        if not await self._until(gone, timeout=max(self._timeout, DELETED_WITHIN)):
            raise PermanentError(
                f"StreamApp {name} still exists, so its job may run; see its events, and then "
                f"run `weir adopt {self._name} --namespace {self._namespace} --back` again"
            )
        self._say(f"Deleted StreamApp {name}")
        return record

    async def _stop_app(self, key: Key) -> str | None:
        """Stop the StreamApp's job with a savepoint; return its path, `None` if none comes."""
        await self._ask(lambda: self._api.patch(key.path, {"spec": {"state": "Suspended"}}))

        async def stopped() -> str | None:
            kept = (await self._api.get(key.path)).get("status") or {}
            controller = kept.get("controller") or {}
            return controller.get("restore_path") if controller.get("suspended") else None

        return await self._until(stopped)

    async def _resume(self, record: MoveRecord) -> None:
        """Have the FlinkDeployment run again, and remove the annotation once it does."""

        async def let_run() -> bool:
            job = (await self._api.get(self._path))["spec"]["job"]
            if job.get("state") == "suspended":
                change: Body = {"state": "running"}
                if record.resume_from:
                    change["initialSavepointPath"] = record.resume_from
                    change["savepointRedeployNonce"] = (job.get("savepointRedeployNonce") or 0) + 1
                # The mode stays `savepoint` until the job runs: `stateless` would drop its state.
                await self._api.patch(self._path, {"spec": {"job": change}})
            return True

        await self._ask(let_run)
        seen: Json = {}

        async def runs() -> bool | None:
            found = await self._api.get(self._path)
            seen.update(found.get("status") or {})
            state = (seen.get("jobStatus") or {}).get("state")
            up = seen.get("lifecycleState") in ("DEPLOYED", "STABLE") and _is_observed(found)
            return True if up and state == "RUNNING" else None

        if not await self._until(runs):
            raise PermanentError(
                f"FlinkDeployment {self._name} does not run after {self._timeout:g} s: "
                f"lifecycleState is {seen.get('lifecycleState')}, error is "
                f"{seen.get('error') or 'empty'}; its state is in "
                f"{record.resume_from or record.savepoint or 'its last checkpoint'}"
            )
        end: Body = {
            "metadata": {"annotations": {MOVE: None}},
            "spec": {"job": {"upgradeMode": record.upgrade_mode}},
        }
        await self._ask(lambda: self._api.patch(self._path, end))

    async def _note(self, record: MoveRecord) -> None:
        body: Body = {"metadata": {"annotations": {MOVE: record.model_dump_json()}}}
        await self._ask(lambda: self._api.patch(self._path, body))

    async def _find_app(self, key: Key) -> Body | None:
        try:
            return dict(await self._api.get(key.path))
        except NotFoundError:
            return None

    async def _ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to a request that may be repeated.

        Raises:
            TemporaryError: It did not come within the time limit.
        """
        answer = await self._until(request)
        if answer is None:
            raise TemporaryError(f"Expected an answer within {self._timeout:g} s, got none")
        return answer

    async def _until(
        self, probe: Callable[[], Awaitable[T | None]], *, timeout: float | None = None
    ) -> T | None:
        """Ask until there is an answer; a moment in which the API server is away is no failure.

        Raises:
            TemporaryError: The API server was away at the end of the time limit.
        """
        away: TemporaryError | None = None

        async def ask() -> T | None:
            nonlocal away
            away = None
            try:
                return await probe()
            except TemporaryError as error:
                away = error
                self._say(f"{error}; trying again")
                return None

        limit = self._timeout if timeout is None else timeout
        found = await wait_until(ask, clock=self._clock, timeout=limit, period=self._period)
        if away is not None:
            raise away
        return found


def _record_of(deployment: Json) -> MoveRecord | None:
    meta = deployment["metadata"]
    text = (meta.get("annotations") or {}).get(MOVE)
    if text is None:
        return None
    try:
        return MoveRecord.model_validate_json(text)
    except ValidationError as error:
        raise PermanentError(
            f"Annotation {MOVE} of FlinkDeployment {meta['name']}: expected the record of a move, "
            f"got something else ({error.error_count()} errors); remove it, and move the job by "
            "hand"
        ) from error


def _savepoint_of(deployment: Json) -> str:
    """Return the savepoint of the last stop, which older operators keep elsewhere."""
    job = (deployment.get("status") or {}).get("jobStatus") or {}
    last = (job.get("savepointInfo") or {}).get("lastSavepoint") or {}
    return str(job.get("upgradeSavepointPath") or last.get("location") or "")


def _with_savepoint(record: MoveRecord) -> Body:
    spec = record.stream_app["spec"]
    job = {**spec["flink"]["job"], "initialSavepoint": record.savepoint}
    return {**record.stream_app, "spec": {**spec, "flink": {**spec["flink"], "job": job}}}


def _check_app(found: Json, record: MoveRecord) -> None:
    """Refuse a StreamApp that this move did not create.

    Its uid says that. Where none was noted, the savepoint does, which a user can change.
    """
    if record.uid:
        expected, got = f"uid {record.uid}", f"uid {found['metadata']['uid']}"
    else:
        expected, got = (
            f"spec.flink.job.initialSavepoint {path or 'empty'}"
            for path in (record.savepoint, _start_of(found))
        )
    if not (record.uid or record.savepoint) or got != expected:
        raise PermanentError(
            f"StreamApp {found['metadata']['name']} is not the one that this move created: "
            f"expected {expected}, got {got}. Its job may run, so the FlinkDeployment stays "
            "suspended. Stop that job with a savepoint and delete the StreamApp; then run the "
            "command again, or move the job back by hand to keep the state in that savepoint"
        )


def _start_of(app: Json) -> str | None:
    """Return the savepoint with which a StreamApp starts first."""
    job: Json = app["spec"].get("flink", {}).get("job") or {}
    path = job.get("initialSavepoint")
    return None if path is None else str(path)


def _is_observed(deployment: Json) -> bool:
    """Return whether the status is about the spec as it is; older operators do not say."""
    observed = (deployment.get("status") or {}).get("observedGeneration")
    return observed is None or int(observed) >= int(deployment["metadata"]["generation"])


def _rate_of(status: Json) -> float:
    """Return the records per second that a status shows, 0 where it shows none."""
    text = str(status.get("rate") or "0/s").removesuffix("/s")
    return float(text)

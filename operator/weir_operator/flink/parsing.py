"""Reads Flink's JSON into the values of `answers`. Pure; milliseconds become seconds here."""

from __future__ import annotations

from weir_operator.flink.answers import (
    Checkpoint,
    Checkpoints,
    Edge,
    Job,
    JobState,
    JobSummary,
    SavepointProgress,
    Subtask,
    TaskManager,
    Vertex,
)
from weir_operator.flink.causes import root_cause
from weir_operator.flink.transport import Json


def read_jobs(answer: Json) -> tuple[JobSummary, ...]:
    """Read `GET /jobs/overview`."""
    return tuple(
        JobSummary(
            id=job["jid"],
            name=job["name"],
            state=JobState(job["state"]),
            started=job["start-time"] / 1000,
        )
        for job in answer["jobs"]
    )


def read_job(answer: Json) -> Job:
    """Read `GET /jobs/:id`."""
    return Job(
        id=answer["jid"],
        name=answer["name"],
        state=JobState(answer["state"]),
        started=answer["start-time"] / 1000,
        vertices=tuple(_read_vertex(vertex) for vertex in answer["vertices"]),
        # A job that failed before it had a graph has an empty plan, without nodes.
        edges=tuple(
            Edge(source=given["id"], target=node["id"], ship_strategy=given["ship_strategy"])
            for node in (answer.get("plan") or {}).get("nodes", ())
            for given in node.get("inputs", ())
        ),
    )


def _read_vertex(answer: Json) -> Vertex:
    return Vertex(
        id=answer["id"],
        name=answer["name"],
        parallelism=answer["parallelism"],
        max_parallelism=answer["maxParallelism"],
        slot_sharing_group=answer.get("slotSharingGroupId"),
        tasks={status: count for status, count in answer["tasks"].items() if count},
    )


def read_subtasks(answer: Json) -> tuple[Subtask, ...]:
    """Read `GET /jobs/:id/vertices/:id`."""
    return tuple(
        Subtask(
            index=subtask["subtask"],
            status=subtask["status"],
            task_manager=_assigned(subtask.get("taskmanager-id")),
        )
        for subtask in answer["subtasks"]
    )


def _assigned(task_manager: str | None) -> str | None:
    return None if task_manager in (None, "", "(unassigned)") else task_manager


def read_task_managers(answer: Json) -> tuple[TaskManager, ...]:
    """Read `GET /taskmanagers`."""
    return tuple(
        TaskManager(
            id=each["id"],
            slots=each["slotsNumber"],
            free_slots=each["freeSlots"],
            extended_resources={
                name: float(amount)
                for name, amount in each["totalResource"]["extendedResources"].items()
            },
            managed_memory=each["totalResource"]["managedMemory"],
        )
        for each in answer["taskmanagers"]
    )


def read_savepoint(answer: Json) -> SavepointProgress:
    """Read `GET /jobs/:id/savepoints/:trigger`."""
    if answer["status"]["id"] != "COMPLETED":
        return SavepointProgress()
    operation = answer["operation"]
    if "failure-cause" in operation:
        return SavepointProgress(failure=root_cause(operation["failure-cause"]["stack-trace"]))
    return SavepointProgress(path=operation["location"])


def read_disposal(answer: Json) -> SavepointProgress:
    """Read `GET /savepoint-disposal/:trigger`; a success has no path, so it is the empty one."""
    if answer["status"]["id"] != "COMPLETED":
        return SavepointProgress()
    failure = (answer["operation"] or {}).get("failure-cause")
    if failure is not None:
        return SavepointProgress(failure=root_cause(failure["stack-trace"]))
    return SavepointProgress(path="")


def read_checkpoints(answer: Json) -> Checkpoints:
    """Read `GET /jobs/:id/checkpoints`."""
    counts, latest = answer["counts"], answer["latest"]
    completed = [
        each
        for each in (latest["completed"], latest["savepoint"])
        if each and each["external_path"]
    ]
    newest = max(completed, key=lambda each: int(each["id"]), default=None)
    return Checkpoints(
        completed=counts["completed"],
        failed=counts["failed"],
        in_progress=counts["in_progress"],
        newest=None if newest is None else _read_checkpoint(newest),
        restored=(latest.get("restored") or {}).get("external_path"),
        retained=tuple(
            each["external_path"]
            for each in sorted(answer.get("history", ()), key=lambda each: int(each["id"]))
            if each.get("external_path") and not each["is_savepoint"] and not each["discarded"]
        ),
    )


def _read_checkpoint(answer: Json) -> Checkpoint:
    return Checkpoint(
        id=answer["id"],
        path=answer["external_path"],
        completed=answer["latest_ack_timestamp"] / 1000,
        duration=answer["end_to_end_duration"] / 1000,
        state_size=answer["state_size"],
        is_savepoint=answer["is_savepoint"],
        stopped=answer.get("checkpoint_type") == "SYNC_SAVEPOINT",
    )


def read_root_exception(answer: Json) -> str | None:
    """Read `GET /jobs/:id/exceptions`: the newest cause with the task it hit, if there was one."""
    entries = answer["exceptionHistory"]["entries"]
    if not entries:
        return None
    newest = entries[0]
    where = newest.get("taskName")
    cause = root_cause(newest["stacktrace"])
    return cause if where is None else f"{cause} (in {where})"

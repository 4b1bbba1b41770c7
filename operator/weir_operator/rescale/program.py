"""What the program of a job builds, asked of the JobManager before TaskManagers are started.

The memory of its TaskManagers depends on the graph, and a program that can never run, or that the
agent cannot pin, is refused before anything is touched.
"""

from __future__ import annotations

import structlog

from weir_operator.errors import NotInProgramError, PermanentError, TemporaryError
from weir_operator.flink.scripts import is_script
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.replicas import parallelism
from weir_operator.rescale.settings import JobSpec

log = structlog.get_logger()


async def with_graph(journal: RescaleJournal, *, jobs: FlinkJobs, spec: JobSpec) -> RescaleJournal:
    """Return the change with the graph of the revision that it leads to.

    A graph that cannot be read stops nothing: every operator is then taken to use managed memory,
    and a program that cannot run says so when it is submitted. Only one without the class to run,
    or without an operator of the manifest, can never run.

    Args:
        journal: Before TaskManagers are started; the JobManager is that of the revision, with its
            jar.
        jobs: Who asks Flink.
        spec: How the job is submitted at the revision.

    Raises:
        NotInProgramError: It lacks the class or an operator; nothing has been started.
    """
    revision = journal.revision
    # On one machine memory is not scarce enough to be worth a second run of the program.
    if revision is None or revision.graph is not None or journal.is_back or not revision.places:
        return journal
    by_agent = await is_pinned_by_agent(journal, jobs=jobs, spec=spec)
    try:
        graph = await jobs.read_graph(
            entry_class=spec.entry_class,
            arguments=spec.program_arguments(journal.wanted, by_agent=by_agent),
            parallelism=spec.default_parallelism(journal.wanted),
            configuration=spec.configuration(journal.wanted, by_agent=by_agent),
            operators=tuple(spec.vertices or spec.parallelism_arguments),
            whole_job=None if spec.vertices else spec.whole_job,
        )
    except NotInProgramError:
        raise
    except (TemporaryError, PermanentError) as error:
        log.warning("graph not read", change=journal.id, failure=str(error))
        return journal
    return journal.model_copy(update={"revision": revision.model_copy(update={"graph": graph})})


async def refuse_script(journal: RescaleJournal, *, jobs: FlinkJobs, spec: JobSpec) -> None:
    """Refuse a script that is no job; a program that is none says so when it is submitted.

    Raises:
        PermanentError: The script cannot run as one job; nothing has been touched.
    """
    if spec.whole_job is None or not is_script(spec.entry_class) or journal.is_back:
        return  # one whose operators are listed is read for these
    await jobs.read_graph(
        entry_class=spec.entry_class,
        arguments=spec.arguments,
        parallelism=spec.default_parallelism(journal.wanted),
        configuration={},
        operators=(),
        whole_job=spec.whole_job,
    )


async def is_pinned_by_agent(journal: RescaleJournal, *, jobs: FlinkJobs, spec: JobSpec) -> bool:
    """Return whether Weir's agent is to pin the job, because its program does not.

    Raises:
        PermanentError: The agent cannot pin the operators that the manifest lists.
    """
    if spec.whole_job is not None and not spec.vertices:
        return False
    return await jobs.is_pinned_by_agent(
        entry_class=spec.entry_class,
        arguments=spec.arguments,
        configuration=spec.configuration(journal.wanted, by_agent=True),
        most=parallelism(journal.wanted),
        vertices=spec.vertices,
    )

"""Knowing what a job builds before its TaskManagers are started, whose memory follows from it."""

from __future__ import annotations

import structlog

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.rescale.job import JobSpec
from weir_operator.rescale.jobs import Jobs
from weir_operator.rescale.journal import RescaleJournal

log = structlog.get_logger()


async def with_graph(journal: RescaleJournal, *, jobs: Jobs, spec: JobSpec) -> RescaleJournal:
    """Return the change with the graph of the revision that it leads to.

    A graph that cannot be read stops nothing: every operator is then taken to use managed memory,
    and a program that cannot run says so when it is submitted.

    Args:
        journal: Before TaskManagers are started; the JobManager is that of the revision, with its
            jar.
        jobs: Who asks Flink.
        spec: How the job is submitted at the revision.
    """
    revision = journal.revision
    # On one machine memory is not scarce enough to be worth a second run of the program.
    if revision is None or revision.graph is not None or journal.is_back or not revision.places:
        return journal
    try:
        graph = await jobs.read_graph(
            entry_class=spec.entry_class,
            arguments=spec.program_arguments(journal.wanted),
            parallelism=spec.default_parallelism(journal.wanted),
            configuration=spec.configuration(journal.wanted),
            operators=tuple(spec.parallelism_arguments),
            whole_job=spec.whole_job,
        )
    except (TemporaryError, PermanentError) as error:
        log.warning("graph not read", change=journal.id, failure=str(error))
        return journal
    return journal.model_copy(update={"revision": revision.model_copy(update={"graph": graph})})

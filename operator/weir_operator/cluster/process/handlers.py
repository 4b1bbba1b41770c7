"""kopf's part: it watches StreamApps, calls passes, and holds the finalizer. Thin.

kopf is in maintenance mode, so it is kept behind this module. Nothing here decides, and nothing is
written through kopf: a status is due before a step is taken, when kopf's patch goes out after it.
The only change-detecting handler is that of the deletion, and no handler watches the status.

Why each setting is as it is:

- A finalizer, progress and the last handled configuration under a prefix of our own: another
  operator with kopf's defaults would handle our objects, and we its.
- Standalone peering: another operator's `default` peering can freeze ours. One active controller
  at a time is the Lease's business.
- No log lines as events: events are facts, posted by `events`.
- Time limits for requests and watches: kopf's defaults are minutes, or none.
- Requests that are refused or fail are sent again for ever: kopf would end the whole controller
  after a minute in which one watched namespace was refused, as when it has been deleted.
- Scanning disabled: no right to list CRDs and namespaces is needed.
- The deletion is tried until it is done.
- No timers: with one, kopf keeps the newest object of each StreamApp, and a task that waits.
  Passes that nothing asks for are the reconciler's.
- Writes of the status are shown to kopf, too: nothing public hides them from it, and a pass over a
  StreamApp of which nothing else is new costs next to nothing (`Resource.asks_the_same_as`).
- No limit of workers: a deletion that waits holds its object's worker, and as many of them as the
  limit would keep every other StreamApp from being handled.
- Nothing of a spec is kept in the annotation of what was handled last: an annotation holds 256 KiB
  at most, and an object whose spec is larger could never be released from its finalizer.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import kopf

from weir_operator.api.objects import CANARY_LABEL, GROUP, PLURAL, VERSION, Key, Resource
from weir_operator.cluster.process.reconcile import Reconciler
from weir_operator.errors import WeirError

PREFIX = "kopf.weir.dev"
FINALIZER = "weir.dev/final-savepoint"
DELETION_TAKES = 60.0
"""Seconds that a handler waits for a deletion; one that takes longer goes on beside."""
LOOK_AT_DELETION = 5.0
"""Seconds until the handler looks again."""
TRY_DELETION_AGAIN = 10.0
"""Seconds until a deletion that could not be done is tried again."""
WATCH_LASTS = 300
"""Seconds after which the API server ends a watch: a whole number, or it refuses."""
LISTED_AT_ONCE = 5
"""StreamApps in one answer of the list before a watch: kopf reads it whole, however large it is.
The API server stores objects of 1.5 MiB, which take up to ten times that once they are read."""
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between tries of a request of kopf's that failed or was refused; then always the last."""


class _Pauses:
    """`PAUSES`, without an end; begun anew by each request, and counted from the second try on."""

    def __init__(self, count_retry: Callable[[], None]) -> None:
        self._count_retry = count_retry

    def __iter__(self) -> Iterator[float]:
        yield PAUSES[0]  # kopf takes a pause before each try
        for pause in chain(PAUSES[1:], repeat(PAUSES[-1])):
            self._count_retry()
            yield pause


class _NothingHandled(kopf.AnnotationsDiffBaseStorage):
    """Remembers that an object was handled, but not what it held: no handler asks what changed."""

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        return kopf.BodyEssence({})


def operator_settings(count_retry: Callable[[], None]) -> kopf.OperatorSettings:
    """Return kopf's settings; `count_retry` is called whenever kopf sends a request again."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    settings.persistence.diffbase_storage = _NothingHandled(prefix=PREFIX)
    settings.posting.enabled = False
    settings.networking.request_timeout = 60.0
    settings.networking.connect_timeout = 10.0
    settings.networking.enforce_retry_after = True
    settings.networking.error_backoffs = _Pauses(count_retry)
    settings.watching.connect_timeout = 10.0
    settings.watching.server_timeout = WATCH_LASTS
    settings.watching.inactivity_timeout = 70.0
    settings.watching.chunk_size = LISTED_AT_ONCE
    settings.execution.default_backoff = 15.0
    settings.queueing.worker_limit = None
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = 60.0
    return settings


class Connection(kopf.ConnectionInfo):
    """kopf's connection to an API server whose CA may lack what RFC 5280 asks for.

    From Python 3.13 on, a CA without key usage is refused by default; clusters have such ones.
    """

    def as_ssl_context(self) -> ssl.SSLContext:
        """Return kopf's context, less strict."""
        context = super().as_ssl_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def build_registry(
    reconciler: Reconciler, *, on_watch: Callable[[Resource], None]
) -> kopf.OperatorRegistry:
    """Return kopf's registry with Weir's handlers in it."""
    registry = kopf.OperatorRegistry()
    kind = (GROUP, VERSION, PLURAL)

    @kopf.on.login(registry=registry, retries=3, errors=kopf.ErrorsMode.TEMPORARY)
    def log_in(**kwargs: Any) -> Connection | None:
        # Not by the synchronous client, whose import alone costs some hundred megabytes.
        found = kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
        return None if found is None else Connection(**vars(found))

    @kopf.on.event(*kind, id="reconcile", registry=registry)
    async def reconcile(event: Mapping[str, Any], body: kopf.Body, **_: Any) -> None:
        if event["type"] == "DELETED":
            meta = body["metadata"]
            reconciler.forget(Key(meta["namespace"], meta["name"]))
            return
        resource = Resource.of(body)
        on_watch(resource)
        reconciler.reconcile(resource)

    @kopf.on.delete(
        *kind,
        id="end",
        registry=registry,
        errors=kopf.ErrorsMode.TEMPORARY,
        when=_runs_a_job,
    )
    async def end(body: kopf.Body, **_: Any) -> None:
        try:
            over = await reconciler.end(
                Resource.of(body), body["metadata"]["deletionTimestamp"], patience=DELETION_TAKES
            )
        except WeirError as error:
            raise kopf.TemporaryError(str(error), delay=TRY_DELETION_AGAIN) from error
        if not over:
            raise kopf.TemporaryError("Weir is stopping the job", delay=LOOK_AT_DELETION)

    return registry


def _runs_a_job(body: kopf.Body, **_: Any) -> bool:
    """Return whether it runs a job: kopf gives all others no finalizer.

    A finalizer of the canary would outlive the controller, and with it the canary's namespace.
    """
    return CANARY_LABEL not in body["metadata"].get("labels", {})

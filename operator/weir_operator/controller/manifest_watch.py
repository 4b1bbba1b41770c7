"""The manifest of a run on this machine, read again whenever its file has changed.

On Kubernetes the API server tells of changes; here the file's time and size do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from weir_operator.clock import Clock
from weir_operator.controller import assembly
from weir_operator.controller.directives import Directives, carried_by_directives, directives_of
from weir_operator.controller.events import Event
from weir_operator.errors import PermanentError
from weir_operator.streamapp.loading import find_jar, load_manifest
from weir_operator.streamapp.models import Spec, StreamApp


class ManifestWatch:
    """Directives out of a file. What only a new start can take over is said, once."""

    def __init__(
        self,
        manifest: Path,
        app: StreamApp,
        *,
        arguments: Sequence[str],
        clock: Clock,
        on_event: Callable[[Event], None],
    ) -> None:
        """Begin with the manifest as it was loaded.

        Args:
            manifest: Its file.
            app: What it said.
            arguments: More arguments of the job, after the manifest's.
            clock: The time.
            on_event: Takes what is told.
        """
        self._manifest = manifest
        self._app = app
        self._arguments = arguments
        self._clock = clock
        self._on_event = on_event
        self._seen = self._stamp()
        self._directives = self._translate(app)

    def __call__(self) -> Directives:
        """Return what the file asks now; one that cannot be right changes nothing."""
        stamp = self._stamp()
        if stamp is not None and stamp != self._seen:
            self._seen = stamp
            try:
                app = load_manifest(self._manifest)
                self._directives = self._translate(app)
            except PermanentError as mistake:
                self._tell("InvalidSpec", f"{mistake}; the job is left as it is")
                return self._directives
            if not carried_by_directives(_without_job(self._app.spec), _without_job(app.spec)):
                self._tell(
                    "RestartNeeded",
                    "The manifest has changed in more than weir local takes over while it runs: "
                    "end it and start it again",
                )
        return self._directives

    def _translate(self, app: StreamApp) -> Directives:
        job = assembly.job_spec(app, beside=self._manifest.parent, extra=self._arguments)
        jar = find_jar(app, self._manifest)
        return directives_of(app, revision=assembly.revision_of(app, job, jar=jar))

    def _stamp(self) -> tuple[int, int] | None:
        """Return the file's time and size; `None` while an editor replaces it."""
        try:
            found = self._manifest.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size

    def _tell(self, reason: str, message: str) -> None:
        self._on_event(Event(time=self._clock.now(), reason=reason, message=message))


def _without_job(spec: Spec) -> Spec:
    """Return the spec without what an upgrade takes over on this machine: arguments and jar."""
    return spec.model_copy(update={"flink": spec.flink.model_copy(update={"job": None})})

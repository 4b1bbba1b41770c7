"""The history that the controller reads: the pipelines' tables, and what goes wrong with them.

The controller knows history as a seam and no table; whoever starts it has both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from weir_cli.history import need_pyarrow
from weir_operator.clock import Clock, SystemClock
from weir_operator.errors import TemporaryError
from weir_pipelines.errors import PipelineError

if TYPE_CHECKING:
    from weir_policies.model.season import Season
    from weir_simulator.fitting.history import History


class TablesHistory:
    """The pipelines' tables as the controller reads them: what ended long ago is not used."""

    def __init__(self, tables: Path, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def read(self, app: str, *, operators: Collection[str], node_types: Collection[str]) -> History:
        """Return what is kept of an application.

        Raises:
            TemporaryError: Nothing is kept of it, it is too old, or it cannot be read.
        """
        from weir_pipelines.history import read_history

        with _temporarily():
            return read_history(
                self._tables,
                app,
                operators=operators,
                node_types=node_types,
                now=self._clock.now(),
            )

    def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at its operators.

        Raises:
            TemporaryError: It is too old, or cannot be read.
        """
        from weir_pipelines.seasons import read_seasons
        from weir_pipelines.store import Tables

        with _temporarily():
            return read_seasons(Tables(self._tables), app, now=self._clock.now())


def open_history(tables: Path) -> TablesHistory:
    """Return the tables in a folder, which may still be empty.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    need_pyarrow()
    return TablesHistory(tables, SystemClock())


@contextmanager
def _temporarily() -> Iterator[None]:
    """Turn what can go wrong with tables into what the controller goes on from."""
    try:
        yield
    except (PipelineError, OSError) as error:
        raise TemporaryError(str(error)) from error

"""Where a job that is down goes on: where it was, as far as the manifest and the pools allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir_operator.clock import Clock
from weir_operator.controller.room import Group, fit_into_room, fit_to_manifest, move_leaving
from weir_operator.rescale.closing import add_full
from weir_operator.rescale.job import RescaleSettings
from weir_operator.rescale.journal import DeploymentMap
from weir_operator.rescale.replicas import explain_absence
from weir_operator.runtime.seam import Replica, Runtime
from weir_operator.status import AppStatus, StatusStore
from weir_policies.promise import OperatorModel


class RoomFinder:
    """Finds deployments that have room; remembers since when replicas wait for theirs."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        store: StatusStore,
        clock: Clock,
        initial: DeploymentMap,
        models: Mapping[str, OperatorModel] | None,
        settings: RescaleSettings,
    ) -> None:
        """Take over what the manifest allows.

        Args:
            runtime: Where the replicas are.
            store: The status, where full pools are remembered.
            clock: The time.
            initial: What each operator begins with.
            models: Of the operators that may change; `None` holds nothing against the manifest.
            settings: How long is waited.
        """
        self._runtime = runtime
        self._store = store
        self._clock = clock
        self._initial = initial
        self._models = models
        self._settings = settings
        self._pending_since: float | None = None

    def fit(self, deployments: DeploymentMap) -> DeploymentMap:
        """Return the deployments as far as the manifest has them now."""
        if self._models is None:
            return {name: deployments.get(name, own) for name, own in self._initial.items()}
        return fit_to_manifest(deployments, self._initial, self._models)

    async def find_target(self, status: AppStatus) -> DeploymentMap:
        """Return where a job that is down is to run: where it was, as far as there is room."""
        alive = await self._runtime.replicas()
        fitting = self.fit(status.deployments)
        return fit_into_room(fitting, alive, self._full(status), self._models or {})

    def find_way_out(self, status: AppStatus, alive: Sequence[Replica]) -> DeploymentMap:
        """Return where a job runs on once replicas that are about to go have left."""
        leaving = [each for each in alive if each.doomed]
        return move_leaving(status.deployments, leaving, self._full(status), self._models or {})

    def _full(self, status: AppStatus) -> list[Group]:
        now = self._clock.now()
        return [(each.operator, each.pool) for each in status.full if each.holds(now)]

    def forget_waiting(self) -> None:
        """Begin to count anew: all have their place."""
        self._pending_since = None

    async def see_waiting(self, pending: tuple[Replica, ...]) -> str:
        """Remember for how long replicas find no place, and past the deadline which pools are full.

        Returns:
            Why the wait is over, one sentence; empty while it is not.
        """
        now = self._clock.monotonic()
        if not pending:
            self.forget_waiting()
            return ""
        self._pending_since = now if self._pending_since is None else self._pending_since
        limit = self._settings.start_deadline
        if now - self._pending_since < limit:
            return ""
        self.forget_waiting()
        reason = str(explain_absence(pending, limit))
        status = self._store.load()
        known = add_full(
            status.full,
            {(each.operator, each.pool) for each in pending},
            lasts=self._settings.full_for,
            reason=reason,
            now=self._clock.now(),
        )
        await self._store.save(status.model_copy(update={"full": known}))
        return reason

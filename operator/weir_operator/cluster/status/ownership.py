"""Which installation manages a StreamApp that several of them watch.

Controllers of one installation share a Lease; another installation has its own, so nothing else
prevents two installations from managing one job if their namespaces overlap. So each StreamApp
stores its home, the Lease of the controller that opened it first, in `status.controller.home`.
Another installation leaves it alone while that Lease is renewed, and takes it over once it is not:
at once if the Lease was released or deleted, after its duration if it is not renewed. An annotation
gives a StreamApp to one installation, whatever its home is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import structlog

from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.api.leader import DURATION, StandingLease, leases_of
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.streamapp.section import DNS_LABEL

log = structlog.get_logger()

_LEASE = re.compile(rf"{DNS_LABEL}/{DNS_LABEL}(\.{DNS_LABEL})*")

ANNOTATION = "weir.dev/controller"
"""`namespace/name` of the Lease of the installation that is to look after the StreamApp."""


def given_elsewhere(annotations: Mapping[str, str], own: str) -> str:
    """Return the other installation that the annotation names; empty if it names none or `own`."""
    given = annotations.get(ANNOTATION, "")
    return "" if given == own else given


class ManagedElsewhereError(TemporaryError):
    """Another installation of Weir manages the StreamApp."""


class Ownership:
    """Decides whether one installation may manage one StreamApp."""

    def __init__(self, api: KubernetesApi, own: str) -> None:
        self._api = api
        self._own = own
        self._lease = StandingLease(DURATION)

    async def check(self, kept: object, annotations: Mapping[str, str]) -> None:
        """Return if this installation may manage the StreamApp.

        Args:
            kept: The home in its status, if any; what cannot be one is nobody's.
            annotations: The StreamApp's.

        Raises:
            ManagedElsewhereError: Another one does.
            TemporaryError: The API server does not answer.
        """
        given = given_elsewhere(annotations, self._own)
        if given:
            raise ManagedElsewhereError(
                f"The annotation {ANNOTATION} gives the StreamApp to {given}; {self._own} "
                "does not manage it"
            )
        if annotations.get(ANNOTATION) or kept is None or kept == self._own:
            return
        if not isinstance(kept, str) or _LEASE.fullmatch(kept) is None:
            # Somebody has damaged the status: no Lease has such a name, so nobody renews it.
            log.warning(
                "status.controller.home: expected the namespace/name of a Lease; taken over",
                got=str(kept)[:100],
            )
            return
        try:
            over = await self._is_over(kept)
            known = "which is active"
        except PermanentError as error:
            over, known = False, f"whose state is unknown here ({error})"
        if not over:
            raise ManagedElsewhereError(
                f"The controller of Lease {kept}, {known}, manages this StreamApp, so the "
                f"controller of {self._own} does not; watch different namespaces with "
                "watchNamespaces, or move the StreamApp with the annotation "
                f"{ANNOTATION}: {self._own}"
            )

    async def _is_over(self, home: str) -> bool:
        namespace, _, name = home.partition("/")
        try:
            lease = await self._api.get(f"{leases_of(namespace)}/{name}")
        except NotFoundError:
            return True
        return self._lease.is_over(lease, asyncio.get_running_loop().time())

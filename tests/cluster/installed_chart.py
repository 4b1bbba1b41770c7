"""The chart on a cluster, installed for one test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from benchmarks.cluster.installation import RELEASE, apply_definition, install_chart, run_helm
from benchmarks.cluster.place import Place
from tests.helm.program import find_or_build_helm


@asynccontextmanager
async def installed_chart(place: Place, **values: Any) -> AsyncIterator[Callable[..., None]]:
    """Install the chart for the namespace of a place while the block runs; yield Helm there."""
    program = find_or_build_helm()
    await apply_definition(place.api)
    given: Mapping[str, Any] = {"nodeSelector": {"weir.dev/pool": "medium"}, **values}
    await asyncio.to_thread(
        install_chart, place.namespace, watched=place.namespace, values=given, helm=program
    )
    helm = partial(run_helm, namespace=place.namespace, helm=program)
    yield helm
    await asyncio.to_thread(helm, "uninstall", RELEASE)

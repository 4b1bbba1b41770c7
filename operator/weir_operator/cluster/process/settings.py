"""The start-up settings of the controller's process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir_operator.api.objects import Key
from weir_operator.runtime.revision import AgentImage
from weir_operator.streamapp.models import CANARY
from weir_operator.tuning.history import HistorySource


@dataclass(frozen=True, kw_only=True, slots=True)
class PrometheusAccess:
    """How the Prometheus server is reached that scrapes Flink's reporters."""

    url: str
    token_file: Path | None = None
    """Holds the bearer token; read again before each request, because it is renewed."""
    password_folder: Path | None = None
    """Has the files `username` and `password`; read again before each request."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request, such as the name of a tenant."""
    ca_file: Path | None = None
    """The CA bundle to check the server's certificate against; `None` takes the system's."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the series must have, such as the cluster's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TunerAccess:
    """How tunings are made on the cluster."""

    template: Mapping[str, Any]
    """A Job without a name, see `tuning.job`."""
    namespace: str
    """Of the Jobs."""
    deadline: float
    """Seconds after which a Job is ended, the wait for a node included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ControllerSettings:
    """How one controller runs."""

    identity: str
    """Name of this process, such as the pod's; no two processes alive share it."""
    own_namespace: str
    """Where its Lease is."""
    state: Path
    """Folder of what outlives the process."""
    namespaces: tuple[str, ...] = ()
    """Whose StreamApps are looked after; empty: all."""
    prometheus: PrometheusAccess | None = None
    """`None` scrapes the reporters directly."""
    health_port: int = 8080
    """Serves /healthz, /readyz and /metrics; 0 takes any that is free."""
    health_host: str | None = None
    """Address to serve on; `None` is all of them, because the kubelet asks at the pod's."""
    restarts_per_hour: int | None = None
    """Restarts of jobs that scaling may cause over all StreamApps; `None` is no bound."""
    tuner: TunerAccess | None = None
    """`None` tunes nothing."""
    history: HistorySource | None = None
    """Where the history of all jobs lies; `None` if none is configured."""
    agent: AgentImage | None = None
    """Where Flink's pods get Weir's agent from; `None` starts them without it."""
    lease: str = "weir-controller"
    """Name of the installation's Lease."""

    @property
    def canary(self) -> Key:
        """The StreamApp that proves the watch to be alive, in a namespace that is watched."""
        watched = not self.namespaces or self.own_namespace in self.namespaces
        return Key(self.own_namespace if watched else self.namespaces[0], CANARY)

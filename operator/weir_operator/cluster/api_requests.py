"""How one request to the API server is carried: by the `kubernetes` package's own client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.rest import RESTResponse

from weir_operator.errors import PermanentError

Body: TypeAlias = dict[str, Any]
"""An object of the API server, as plain JSON values."""

CONNECTIONS = 16
"""To the API server at once. Each costs 0.8 MiB while it is kept, most of it buffers of TLS;
whoever comes when all are busy waits for one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked."""

    method: str
    path: str
    body: Body | Sequence[Body] | None = None
    query: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    accept: str = "application/json"
    repeatable: bool = True
    """Whether sending it twice does no more than sending it once."""

    def __str__(self) -> str:
        """Return how errors name it."""
        return f"{self.method} {self.path}"


class Connection:
    """The client that carries requests, opened by the first of them and again when asked for."""

    def __init__(self, open_client: Callable[[], Awaitable[kubernetes_client.ApiClient]]) -> None:
        self._open_client = open_client
        self._client: kubernetes_client.ApiClient | None = None
        self._retired: kubernetes_client.ApiClient | None = None
        self._opening = asyncio.Lock()

    async def opened(
        self, *, instead_of: kubernetes_client.ApiClient | None = None
    ) -> kubernetes_client.ApiClient:
        """Return the client, a new one where the present one is `instead_of`."""
        async with self._opening:
            if self._client is None or self._client is instead_of:
                fresh = await self._open_client()
                # It may still carry other requests, so it ends with the next that is replaced.
                await self._retire(self._client)
                self._client = fresh
            return self._client

    async def close(self) -> None:
        """Release the connections."""
        await self._retire(self._client)
        await self._retire(None)
        self._client = None

    async def _retire(self, client: kubernetes_client.ApiClient | None) -> None:
        client, self._retired = self._retired, client
        if client is not None:
            await client.close()


async def open_client() -> kubernetes_client.ApiClient:
    """Return a client of the cluster that this process runs in, else that `KUBECONFIG` names.

    Raises:
        PermanentError: There are no credentials, or they cannot be read.
    """
    configuration = kubernetes_client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        else:
            await kubernetes_config.load_kube_config(
                client_configuration=configuration, persist_config=False
            )
    except (kubernetes_config.ConfigException, OSError) as error:
        raise PermanentError(
            f"Expected a pod's service account or a kubeconfig, got: {error};"
            " run in a cluster, or set KUBECONFIG"
        ) from error
    configuration.connection_pool_maxsize = CONNECTIONS
    return kubernetes_client.ApiClient(configuration)


async def exchange(
    client: kubernetes_client.ApiClient, request: Request, *, timeout: float
) -> RESTResponse:
    """Send a request and return its answer, unread; all of it must come within `timeout` seconds.

    Raises:
        TimeoutError, aiohttp.ClientError, OSError: It does not come.
    """
    method, url, headers, _, _ = await client.param_serialize(
        request.method,
        request.path,
        query_params=list(request.query),
        header_params={"Accept": request.accept, "Content-Type": request.content_type},
        auth_settings=["BearerToken"],
    )
    answer: RESTResponse = await client.rest_client.request(
        method,
        url,
        headers=headers,
        body=request.body,
        _request_timeout=aiohttp.ClientTimeout(total=timeout),
    )
    return answer

"""A source that cannot be asked says so, whichever it is."""

import socket
import time

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.prometheus import PrometheusSource
from weir_operator.metrics.prometheus_server import PrometheusServer


async def unreachable_direct():
    async def list_targets():
        raise TemporaryError("the runtime does not answer")

    source = DirectSource(list_targets, "app")
    await source.scrape()
    return source


async def unreachable_prometheus():
    with socket.socket() as taken:  # bound and never listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return PrometheusSource(
        PrometheusServer(f"http://user:secret@127.0.0.1:{port}"),
        label="weir_app",
        value="app",
    )


@pytest.mark.parametrize("build", [unreachable_direct, unreachable_prometheus])
async def test_a_source_that_cannot_be_asked_raises_a_temporary_error(build):
    source = await build()
    now = time.time()

    with pytest.raises(TemporaryError) as raised:
        await source.window(start=now - 60, end=now)

    await source.close()
    assert "secret" not in str(raised.value)

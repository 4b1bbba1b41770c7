"""What kopf makes of Weir's settings."""

from __future__ import annotations

import ssl
from typing import cast

import kopf

from tests.operator.cluster.process.loopback import Passes, an_app, until, watching
from weir_operator.api.objects import Resource
from weir_operator.cluster.process.handlers import FINALIZER, Connection

DELETIONS = 500
DELETED = {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": [FINALIZER]}


async def test_deletions_that_wait_keep_no_other_streamapp_from_being_handled(server):
    passes = Passes()
    names = [f"deleted-{number}" for number in range(DELETIONS)]
    server.apps = [an_app("streams", name, **DELETED) for name in names]

    async with watching(passes, "streams"):
        await until(lambda: len(passes.ending) == DELETIONS)
        server.tell(an_app("streams", "another"))

        await until(lambda: "streams/another" in passes.seen)


async def test_a_streamapp_that_is_kept_keeps_its_spec_and_nothing_of_kopfs():
    shown = an_app("streams", "trips")
    shown["status"] = {"controller": {}}

    kept = Resource.of(kopf.Body(cast("kopf.RawBody", shown))).detached()

    assert (type(kept.spec), kept.spec) == (dict, {"mode": "Auto"})


def test_an_api_server_whose_ca_lacks_key_usage_is_trusted_as_before_python_3_13(monkeypatch):
    usual = ssl.create_default_context

    def strict(*args, **kwargs):
        context = usual(*args, **kwargs)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)

    context = Connection(server="https://10.96.0.1").as_ssl_context()

    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_mode is ssl.CERT_REQUIRED

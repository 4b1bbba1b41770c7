"""What kopf makes of Weir's settings."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from types import SimpleNamespace
from typing import Any

import kopf
from kopf._cogs.clients import watching
from kopf._cogs.structs.references import Resource
from kopf._core.reactor import queueing

from weir_operator.kubernetes.api.objects import CANARY_LABEL, GROUP, PLURAL, VERSION, Key
from weir_operator.kubernetes.api.objects import Resource as StreamAppResource
from weir_operator.kubernetes.api.shards import ONLY, Shard
from weir_operator.kubernetes.api.testing import MemoryApi
from weir_operator.kubernetes.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.kubernetes.process import shard_filter
from weir_operator.kubernetes.process.handlers import (
    FINALIZER,
    HANDLED,
    Connection,
    build_registry,
    operator_settings,
)
from weir_operator.kubernetes.process.shard_filter import ShardFilter
from weir_operator.rescale.testing import FakeClock

DELETIONS = 500


def a_filter(shard):
    return ShardFilter(shard.owns, AutoscalerConflicts(MemoryApi(), clock=FakeClock()))


def an_event(name):
    meta = {"namespace": "streams", "name": name, "uid": name, "resourceVersion": "1"}
    return {"type": "MODIFIED", "object": {"metadata": meta}}


async def test_deletions_that_wait_keep_no_other_streamapp_from_being_handled(monkeypatch):
    handled = asyncio.Event()

    async def watch(**_):
        for number in range(DELETIONS):
            yield an_event(f"deleted-{number}")
        yield an_event("another")
        await asyncio.Event().wait()

    async def process(*, raw_event, **_):
        if raw_event["object"]["metadata"]["name"] == "another":
            handled.set()
            return
        await asyncio.Event().wait()  # a savepoint that does not come

    monkeypatch.setattr(watching, "infinite_watch", watch)
    settings = operator_settings(instance="weir-0", shard=a_filter(ONLY))
    settings.queueing.exit_timeout = 0.0

    watcher = asyncio.create_task(
        queueing.watcher(
            namespace=None,
            settings=settings,
            resource=Resource(GROUP, VERSION, PLURAL),
            processor=process,
        )
    )
    try:
        await asyncio.wait_for(handled.wait(), 5.0)
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


async def test_kopf_sees_the_apps_of_its_shard_the_canary_and_the_end_of_the_list(monkeypatch):
    shard = Shard(1, 3)
    canary = an_event("canary")
    canary["object"]["metadata"]["labels"] = {CANARY_LABEL: "true"}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    apps = [an_event(f"app-{number}") for number in range(30)]
    events = [*apps, canary, watching.Bookmark.LISTED, bookmark]

    async def watch(**_):
        for event in events:
            yield event

    monkeypatch.setattr(shard_filter, "_watch_all", watch)
    settings = operator_settings(instance="weir-0", shard=a_filter(shard))

    kind = Resource(GROUP, VERSION, PLURAL)
    stream = watching.infinite_watch(settings=settings, resource=kind, namespace=None)
    seen = [event async for event in stream]

    own = [each for each in apps if shard.owns(Key("streams", each["object"]["metadata"]["name"]))]
    assert 0 < len(own) < len(apps)
    assert seen == [*own, canary, watching.Bookmark.LISTED, bookmark]


async def test_kopf_is_shown_no_status_and_not_that_only_a_status_is_new(monkeypatch):
    settled = {"finalizers": [FINALIZER], "annotations": {HANDLED: "{}"}}

    async def watch(**_):
        for version in range(3):
            event = an_event("trips")
            event["object"]["metadata"] |= settled | {
                "resourceVersion": str(version),
                "managedFields": [{"manager": "weir", "time": str(version)}],
            }
            event["object"] |= {"spec": {"mode": "Auto"}, "status": {"replicas": version}}
            yield event

    monkeypatch.setattr(shard_filter, "_watch_all", watch)
    settings = operator_settings(instance="weir-0", shard=a_filter(ONLY))

    kind = Resource(GROUP, VERSION, PLURAL)
    stream: Any = watching.infinite_watch(settings=settings, resource=kind, namespace=None)
    [seen] = [event["object"] async for event in stream]

    assert seen["metadata"]["resourceVersion"] == "0"
    assert "managedFields" not in seen["metadata"]
    assert (seen["spec"], "status" in seen) == ({"mode": "Auto"}, False)


async def test_kopf_keeps_no_object_and_a_streamapp_keeps_only_its_spec():
    shown = an_event("trips")
    shown["object"] |= {"spec": {"mode": "Auto"}, "status": {"controller": {}}}
    passed: list[StreamAppResource] = []
    reconciler: Any = SimpleNamespace(reconcile=passed.append)
    registry = build_registry(reconciler, on_watch=lambda _: None)
    reconcile: Any  # kopf's type is that of a call with everything that kopf gives
    [reconcile] = registry._watching.get_all_handlers()

    await reconcile.fn(event=shown, body=kopf.Body(shown["object"]))

    [resource] = passed
    assert resource.spec == {"mode": "Auto"}
    kept = resource.detached()
    assert (type(kept.spec), kept.spec) == (dict, {"mode": "Auto"})
    assert kept.detached() is kept
    assert registry._spawning.get_all_handlers() == []  # with a timer, kopf keeps the object


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

"""Every mistake is refused with its field, its value and a remedy."""

import math
from dataclasses import dataclass

import pytest

from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.testing import a_manifest

SMALL = {"name": "small", "sizes": ["250m", "500m"], "price": 0.04}
LARGE = {"name": "large", "sizes": ["1", "2"], "price": 0.05, "maxReplicas": 3}
TWO_POOLS = [SMALL, LARGE]
WINDOW = {"name": "peak", "schedule": "0 17 * * 1-5", "duration": "2h"}


@dataclass
class Bad:
    what: str
    spec: dict[str, object]
    path: str
    got: str
    remedy: str


def operators(*entries: dict[str, object]) -> dict[str, object]:
    return {"nodePools": TWO_POOLS, "operators": list(entries)}


def a_pool(**fields: object) -> dict[str, object]:
    return {"nodePools": [SMALL | fields]}


def a_flink(**fields: object) -> dict[str, object]:
    return {"flink": {"image": "trips:1"} | fields}


TABLE = [
    Bad("an unknown pool", operators({"name": "match", "pools": ["lrge"]}),
        "spec.operators[0].pools[0]", "'lrge'", "did you mean 'large'?"),
    Bad("an unknown pool in fixed", operators({"name": "match", "fixed": {"huge/1": 1}}),
        'spec.operators[0].fixed["huge/1"]', "'huge/1'", "choose one of those"),
    Bad("an unknown size in fixed", operators({"name": "match", "fixed": {"large/4": 1}}),
        'spec.operators[0].fixed["large/4"]', "'large/4'", "did you mean 'large/2'?"),
    Bad("an unknown size in initial", operators({"name": "match", "initial": {"small/1": 1}}),
        'spec.operators[0].initial["small/1"]', "'small/1'", "add the size"),
    Bad("an unknown pool of the JobManager", a_flink(jobManager={"pool": "smal"}),
        "spec.flink.jobManager.pool", "'smal'", "did you mean 'small'?"),
    Bad("a price of zero", a_pool(price=0),
        "spec.nodePools[0].price", "0", "write for example 0.04"),
    Bad("a negative price", a_pool(price=-0.5),
        "spec.nodePools[0].price", "-0.5", "write for example 0.04"),
    Bad("a price in words", a_pool(price="cheap"),
        "spec.nodePools[0].price", "'cheap'", "write for example 0.04"),
    Bad("a price that is no number", a_pool(price=math.nan),
        "spec.nodePools[0].price", "NaN", "write for example 0.04"),
    Bad("two pools and one price", {"nodePools": [SMALL, {"name": "large"}]},
        "spec.nodePools[1].price", "nothing", "write what one CPU of large costs per hour"),
    Bad("a speedup of zero", a_pool(speedup=0),
        "spec.nodePools[0].speedup", "0", "write for example 1.6"),
    Bad("a pool twice", {"nodePools": [SMALL, SMALL]},
        "spec.nodePools[1].name", "'small'", "rename one of them"),
    Bad("no pool at all", {"nodePools": []},
        "spec.nodePools", "[]", 'write for example [{"name": "small"}]'),
    Bad("a pool without sizes", a_pool(sizes=[]),
        "spec.nodePools[0].sizes", "[]", "write for example"),
    Bad("a size twice", a_pool(sizes=["500m", "0.5"]),
        "spec.nodePools[0].sizes[1]", "'0.5'", "remove the second one"),
    Bad("a size of zero", a_pool(sizes=["0m"]),
        "spec.nodePools[0].sizes[0]", "'0m'", "give it a share above zero"),
    Bad("a size without quotes", a_pool(sizes=[1.5]),
        "spec.nodePools[0].sizes[0]", "1.5", 'write "1.5" in quotes'),
    Bad("memory without a unit", a_pool(memory="512"),
        "spec.nodePools[0].memory", "'512'", "correct the number or its unit"),
    Bad("memory as a number", a_pool(memory=512),
        "spec.nodePools[0].memory", "512", "write it as text with its unit"),
    Bad("an operator twice", operators({"name": "match"}, {"name": "match"}),
        "spec.operators[1].name", "'match'", "rename one of them or remove it"),
    Bad("a name in capitals", operators({"name": "Match_Trips"}),
        "spec.operators[0].name", "'Match_Trips'", "write for example 'match-trips'"),
    Bad("a name that is too long", operators({"name": "m" * 64}),
        "spec.operators[0].name", "'mmm", "write for example"),
    Bad("a maximum of no replicas", operators({"name": "match", "maxReplicas": 0}),
        "spec.operators[0].maxReplicas", "0", "write for example 10"),
    Bad("a maximum in quotes", operators({"name": "match", "maxReplicas": "10"}),
        "spec.operators[0].maxReplicas", "'10'", "write for example 10"),
    Bad("more replicas than key groups",
        {"operators": [{"name": "match", "maxReplicas": 20}]} | a_flink(maxParallelism=16),
        "spec.operators[0].maxReplicas", "20", "raise maxParallelism before the first start"),
    Bad("fixed beyond maxReplicas",
        operators({"name": "match", "maxReplicas": 2, "fixed": {"small/250m": 3}}),
        "spec.operators[0].fixed", '{"small/250m": 3}', "raise maxReplicas"),
    Bad("fixed outside the operator's pools",
        operators({"name": "match", "pools": ["large"], "fixed": {"small/250m": 1}}),
        'spec.operators[0].fixed["small/250m"]', "'small/250m'", "add the pool to the operator's"),
    Bad("fixed beyond the pool's limit", operators({"name": "match", "fixed": {"large/1": 4}}),
        "spec.operators[0].fixed", '{"large/1": 4}', "raise the pool's limit"),
    Bad("fixed and initial", operators(
            {"name": "match", "fixed": {"large/1": 1}, "initial": {"large/1": 1}}),
        "spec.operators[0].initial", '{"large/1": 1}', "remove initial"),
    Bad("no replicas in initial", operators({"name": "match", "initial": {"large/1": 0}}),
        'spec.operators[0].initial["large/1"]', "0", "write for example 1"),
    Bad("an unknown rule of sharing", operators({"name": "match", "sharing": "byload"}),
        "spec.operators[0].sharing", "'byload'", "did you mean 'byLoad'?"),
    Bad("a response time of zero", {"objective": {"responseTime": "0ms"}},
        "spec.objective.responseTime", "'0ms'", "give it a length above zero"),
    Bad("a negative response time", {"objective": {"responseTime": "-5s"}},
        "spec.objective.responseTime", "'-5s'", "correct the number or its unit"),
    Bad("a response time without a unit", {"objective": {"responseTime": 200}},
        "spec.objective.responseTime", "200", "write it with its unit"),
    Bad("no response time", {"objective": {}},
        "spec.objective.responseTime", "nothing", "add it, such as '200ms'"),
    Bad("an unknown statistic",
        {"objective": {"responseTime": {"bound": "1s", "statistic": "P95"}}},
        "spec.objective.responseTime.statistic", "'P95'", "did you mean 'p95'?"),
    Bad("a path looser than the whole",
        {"objective": {"responseTime": "200ms",
                       "paths": [{"sink": "alerts", "responseTime": "1s"}]}},
        "spec.objective.paths[0].responseTime", "'1s'", "tighten it"),
    Bad("a sink twice",
        {"objective": {"responseTime": "200ms",
                       "paths": [{"sink": "alerts", "responseTime": "10ms"}] * 2}},
        "spec.objective.paths[1].sink", "'alerts'", "keep the tighter bound"),
    Bad("violations as a number", {"objective": {"responseTime": "1s", "maxViolations": 5}},
        "spec.objective.maxViolations", "5", "write it as text with its unit"),
    Bad("violations above all", {"objective": {"responseTime": "1s", "maxViolations": "105%"}},
        "spec.objective.maxViolations", "'105%'", "correct the number"),
    Bad("nothing to run", {"flink": {}},
        "spec.flink", "nothing", "say what is to be run"),
    Bad("a job that is elsewhere and here",
        {"mode": "Advise"} | a_flink(ref={"kind": "FlinkDeployment", "name": "trips"}),
        "spec.flink.image", "'trips:1'", "or remove ref"),
    Bad("scaling a job that others run",
        {"mode": "Auto", "flink": {"ref": {"kind": "FlinkDeployment", "name": "trips"}}},
        "spec.mode", "'Auto'", "write mode: Advise"),
    Bad("two places of storage", a_flink(storage={"claim": "a", "uri": "s3://b"}),
        "spec.flink.storage", '{"claim": "a", "uri": "s3://b"}', "keep the one that is meant"),
    Bad("a configuration in numbers", a_flink(config={"heartbeat.interval": 1000}),
        'spec.flink.config["heartbeat.interval"]', "a number", "write it in quotes"),
    Bad("a bare Off", {"mode": False},
        "spec.mode", "false", 'write "Off" in quotes'),
    Bad("a mode in small letters", {"mode": "advise"},
        "spec.mode", "'advise'", "did you mean 'Advise'?"),
    Bad("a field that does not exist", a_pool(prize=0.04),
        "spec.nodePools[0].prize", "0.04", "did you mean 'price'?"),
    Bad("a section that does not exist", {"operaters": []},
        "spec.operaters", "a list", "did you mean 'operators'?"),
    Bad("a field in Python's spelling", {"reset_nonce": 1},
        "spec.reset_nonce", "1", "did you mean 'resetNonce'?"),
    Bad("a field like no other", {"zzz": 1},
        "spec.zzz", "1", "use one of applicationManager, "),
    Bad("a bucket upside down",
        {"applicationManager": {"arbitration": {"tokenBucket": {"high": 0.4, "low": 0.5}}}},
        "spec.applicationManager.arbitration.tokenBucket.low", "0.5", "lower it below high"),
    Bad("a window at the 25th hour", {"windows": [WINDOW | {"schedule": "0 25 * * *"}]},
        "spec.windows[0].schedule", "'0 25 * * *'", "correct the hour '25'"),
    Bad("a window twice", {"windows": [WINDOW, WINDOW]},
        "spec.windows[1].name", "'peak'", "rename one of them"),
    Bad("a fallback without its deployment", {"fallback": {"deployment": "Named"}},
        "spec.fallback.named", "nothing", "add it, such as"),
    Bad("a deployment without its fallback", {"fallback": {"named": {"match": {"small/250m": 1}}}},
        "spec.fallback.named", '{"match": {"small/250m": 1}}', "set deployment to Named"),
    Bad("a fallback for an unknown operator",
        operators({"name": "match"})
        | {"fallback": {"deployment": "Named", "named": {"mtch": {"large/1": 1}}}},
        "spec.fallback.named.mtch", "'mtch'", "did you mean 'match'?"),
]  # fmt: skip


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.what)
def test_a_mistake_is_one_sentence_with_field_value_and_remedy(bad: Bad):
    manifest = a_manifest(**bad.spec)

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    (sentence,) = refusal.value.mistakes
    assert sentence.startswith(f"{bad.path}: expected ")
    told, _, remedy = sentence.rpartition("; ")
    assert f", got {bad.got}" in told
    assert bad.remedy in remedy


OWNED = [
    ("jobmanager.rpc.address", "leave it out"),
    ("rest.port", "leave it out"),
    ("taskmanager.numberOfTaskSlots", "leave it out"),
    ("external-resource.op-match.amount", "leave it out"),
    ("jobmanager.scheduler", "leave it out"),
    ("metrics.reporter.prom.port", "leave it out"),
    ("high-availability.type", "leave it out"),
    ("job.autoscaler.enabled", "leave it out"),
    ("pipeline.max-parallelism", "set spec.flink.maxParallelism instead"),
    ("execution.checkpointing.savepoint-dir", "set spec.flink.storage instead"),
    ("taskmanager.memory.managed.size", "set spec.operators[].managedMemory instead"),
]


@pytest.mark.parametrize(("key", "remedy"), OWNED)
def test_a_key_of_flink_that_weir_owns_is_refused_by_name(key, remedy):
    manifest = a_manifest(**a_flink(config={key: "secret"}))

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    (sentence,) = refusal.value.mistakes
    assert sentence.startswith(f'spec.flink.config["{key}"]: expected a key that Weir does not own')
    assert remedy in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(
    "key",
    [
        "web.refresh-interval",
        "heartbeat.timeout",
        "taskmanager.network.adaptive-partitioner.enabled",
        "execution.checkpointing.interval",
        "metrics.reporter.promgateway.port",
    ],
)
def test_other_keys_of_flink_pass(key):
    app = parse_manifest(a_manifest(**a_flink(config={key: "1 s"})))

    assert app.spec.flink.config == {key: "1 s"}


@pytest.mark.parametrize(
    "flink",
    [
        {"image": "trips:1", "config": {"s3.secret-key": 271828}},
        {"image": "trips:1", "config": ["271828"]},
        {"image": "trips:1", "confg": {"s3.secret-key": "271828"}},
        {"image": "trips:1", "podTemplate": "271828"},
        {"config": {"s3.secret-key": "271828"}},
        {
            "ref": {"kind": "FlinkDeployment", "name": "trips"},
            "config": {"s3.secret-key": "271828"},
            "podTemplate": {"spec": {"env": "271828"}},
        },
    ],
)
def test_what_may_be_secret_is_never_repeated(flink):
    manifest = a_manifest(mode="Advise", flink=flink)

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    assert "271828" not in str(refusal.value)


def test_all_mistakes_are_told_at_once_those_between_right_sections_included():
    manifest = a_manifest(
        nodePools=TWO_POOLS,
        operators=[{"name": "match", "pools": ["lrge"]}, {"name": "match"}],
        windows=[{"name": "peak", "schedule": "often", "duration": "2h"}],
        objective={"responseTime": "0s"},
    )

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    assert sorted(sentence.split(":")[0] for sentence in refusal.value.mistakes) == [
        "spec.objective.responseTime",
        "spec.operators[0].pools[0]",
        "spec.operators[1].name",
        "spec.windows[0].schedule",
    ]


def test_a_mistake_in_a_section_hides_the_checks_that_would_have_to_guess_at_it():
    manifest = a_manifest(
        nodePools=[SMALL, LARGE | {"price": 0}], operators=[{"name": "match", "pools": ["large"]}]
    )

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    (sentence,) = refusal.value.mistakes
    assert sentence.startswith("spec.nodePools[1].price")

"""Manifests that cannot be right, and what is said of each: by Weir, and by the API server.

The table has one line for each mistake; who refuses it is asked by the tests of the models and by
those of the API server, so neither can be laxer than the other.
"""

import math
from dataclasses import dataclass

SMALL = {"name": "small", "sizes": ["250m", "500m"], "price": 0.04}
LARGE = {"name": "large", "sizes": ["1", "2"], "price": 0.05, "maxReplicas": 3}
TWO_POOLS = [SMALL, LARGE]
WINDOW = {"name": "peak", "schedule": "0 17 * * 1-5", "duration": "2h"}

REF: dict[str, object] = {"kind": "FlinkDeployment", "name": "trips"}
ADVISED: dict[str, object] = {"mode": "Advise", "flink": {"ref": REF}}


@dataclass(frozen=True)
class Bad:
    """One mistake in the shortest manifest."""

    what: str
    spec: dict[str, object]
    """Sections replaced or added."""
    path: str
    """Where Weir says it is."""
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
    Bad("fallback on an unknown size",
        operators({"name": "match"})
        | {"fallback": {"deployment": "Named", "named": {"match": {"large/8": 1}}}},
        'spec.fallback.named.match["large/8"]', "'large/8'", "did you mean 'large/2'?"),
    Bad("a fallback after no time", {"fallback": {"after": "0s"}},
        "spec.fallback.after", "'0s'", "give it a length above zero"),
    Bad("a fallback that is not known", {"fallback": {"deployment": "Smallest"}},
        "spec.fallback.deployment", "'Smallest'", "write for example"),
    Bad("initial beyond the pool's limit", operators({"name": "match", "initial": {"large/2": 4}}),
        "spec.operators[0].initial", '{"large/2": 4}', "raise the pool's limit"),
    Bad("suspending a job that others run", ADVISED | {"state": "Suspended"},
        "spec.state", "'Suspended'", "whoever runs the job also stops it"),
    Bad("deleting the state of a job that others run", ADVISED | {"deletionPolicy": "Delete"},
        "spec.deletionPolicy", "'Delete'", "the state belongs to whoever runs the job"),
    Bad("an unknown deletion policy", {"deletionPolicy": "Retain"},
        "spec.deletionPolicy", "'Retain'", "write for example 'Delete'"),
    Bad("an unknown kind of reference",
        {"mode": "Advise", "flink": {"ref": {"kind": "Job", "name": "trips"}}},
        "spec.flink.ref.kind", "'Job'", "write for example"),
    Bad("a reference without a name",
        {"mode": "Advise", "flink": {"ref": {"kind": "Deployment"}}},
        "spec.flink.ref.name", "nothing", "add it, such as 'trips'"),
    Bad("an unknown state", {"state": "Stopped"},
        "spec.state", "'Stopped'", "write for example"),
    Bad("no place of storage", a_flink(storage={}),
        "spec.flink.storage", "{}", "keep the one that is meant"),
    Bad("an unknown delivery", a_flink(delivery="exactlyOnce"),
        "spec.flink.delivery", "'exactlyOnce'", "write for example"),
    Bad("no key groups", a_flink(maxParallelism=0),
        "spec.flink.maxParallelism", "0", "write for example 720"),
    Bad("more key groups than Flink has", a_flink(maxParallelism=40000),
        "spec.flink.maxParallelism", "40000", "write for example 720"),
    Bad("a pod's fields beside the template's spec", a_flink(podTemplate={"containers": []}),
        "spec.flink.podTemplate.containers", '["containers"]', "put it below spec"),
    Bad("a toleration that cannot be compared",
        a_pool(tolerations=[{"key": "spot", "operator": "Exists", "value": "yes"}]),
        "spec.nodePools[0].tolerations[0].value", "'yes'", "write operator: Equal"),
    Bad("a toleration of nothing", a_pool(tolerations=[{"value": "yes"}]),
        "spec.nodePools[0].tolerations[0].key", "nothing", "write operator: Exists"),
    Bad("a label that no node can have", a_pool(nodeSelector={"pool": "a b"}),
        "spec.nodePools[0].nodeSelector.pool", "'a b'", "write for example 'small'"),
    Bad("tuning faster than deciding",
        {"operatorManager": {"interval": "10m"}, "applicationManager": {"interval": "1m"}},
        "spec.applicationManager.interval", "'1m'", "lengthen it"),
    Bad("no savepoint kept", {"savepoints": {"keep": 0}},
        "spec.savepoints.keep", "0", "write for example 3"),
    Bad("a rescale by hand", {"rescale": {"via": "Manual"}},
        "spec.rescale.via", "'Manual'", "write for example"),
    Bad("a deadline of no time", {"rescale": {"startDeadline": "0s"}},
        "spec.rescale.startDeadline", "'0s'", "give it a length above zero"),
    Bad("a budget of no restarts", {"applicationManager": {"restartBudget": {"size": 0}}},
        "spec.applicationManager.restartBudget.size", "0", "write for example 3"),
    Bad("a negative nonce", {"resetNonce": -1},
        "spec.resetNonce", "-1", "write for example 1"),
    Bad("a negative number of restarts",
        {"objective": {"responseTime": "1s", "maxRestartsPerDay": -1}},
        "spec.objective.maxRestartsPerDay", "-1", "write for example 12"),
    Bad("an age of no time", {"objective": {"responseTime": "1s", "eventTime": "0s"}},
        "spec.objective.eventTime", "'0s'", "give it a length above zero"),
    Bad("a window of no time", {"windows": [WINDOW | {"duration": "0m"}]},
        "spec.windows[0].duration", "'0m'", "give it a length above zero"),
    Bad("a window with a direction that is none", {"windows": [WINDOW | {"allow": "Up"}]},
        "spec.windows[0].allow", "'Up'", "write for example"),
    Bad("a window with four fields", {"windows": [WINDOW | {"schedule": "0 17 * *"}]},
        "spec.windows[0].schedule", "'0 17 * *'", "write five fields"),
    Bad("a pool without a name", {"nodePools": [{"sizes": ["1"]}]},
        "spec.nodePools[0].name", "nothing", "add it, such as 'small'"),
]  # fmt: skip

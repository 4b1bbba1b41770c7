"""Every mistake is refused with its field, its value and a remedy."""

import pytest

from tests.operator.streamapp.bad_manifests import LARGE, SMALL, TABLE, TWO_POOLS, Bad, a_flink
from tests.operator.streamapp.builders import a_manifest
from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.loading import parse_manifest


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


def test_large_limits_and_empty_lists_are_written_for_people():
    manifest = a_manifest(nodePools=[SMALL | {"price": "1000001", "sizes": []}])

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    sizes, price = refusal.value.mistakes
    assert "expected at least one entry, got []" in sizes
    assert "expected a decimal number above 0 and at most 1,000,000 in quotes" in price


@pytest.mark.parametrize("number", [10**400, 1e300, float("inf"), float("nan")])
def test_a_number_that_no_quotes_make_right_is_not_to_be_quoted(number):
    manifest = a_manifest(nodePools=[SMALL | {"price": number, "sizes": [number]}])

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    size, price = refusal.value.mistakes
    assert size.endswith("; correct the number or its unit")
    assert price.endswith("; correct the number")


OWNED = [
    ("jobmanager.rpc.address", "remove it"),
    ("security.ssl.rest.enabled", "plain HTTP"),
    ("external-resource.op-match.amount", "remove it"),
    ("job.autoscaler.enabled", "remove it"),
    ("kubernetes.operator.job.autoscaler.enabled", "remove it"),
    ("kubernetes.namespace", "spec.flink.podTemplate"),
    ("scheduler-mode", "remove it"),
    ("pipeline.max-parallelism", "set spec.flink.maxParallelism instead"),
    ("execution.checkpointing.savepoint-dir", "set spec.flink.storage instead"),
]


@pytest.mark.parametrize(("key", "remedy"), OWNED)
def test_a_key_of_flink_that_weir_owns_is_refused_by_name(key, remedy):
    manifest = a_manifest(**a_flink(config={key: "secret"}))

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    (sentence,) = refusal.value.mistakes
    field, _, told = sentence.partition(": ")
    assert field in {f'spec.flink.config["{key}"]', f"spec.flink.config.{key}"}
    assert told.startswith("expected a key that Weir does not set itself")
    assert remedy in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(
    "key",
    [
        "web.refresh-interval",
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
        nodePools=[SMALL, LARGE | {"price": "0"}], operators=[{"name": "match", "pools": ["large"]}]
    )

    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(manifest)

    (sentence,) = refusal.value.mistakes
    assert sentence.startswith("spec.nodePools[1].price")


@pytest.mark.parametrize(
    "spec_of",
    [
        lambda name: {"operatorManager": {"policy": {"name": name}}},
        lambda name: {"objective": {name: 1}},
        lambda name: {"flink": {"image": "trips:1", "config": {name: 1}}},
        lambda name: {name: 1},
    ],
    ids=["policy", "inner field", "key of Flink", "field"],
)
def test_a_long_name_is_told_in_a_short_sentence(spec_of):
    with pytest.raises(InvalidStreamAppError) as raised:
        parse_manifest(a_manifest(**spec_of("planner" * 100_000)))

    assert all(len(each) < 1000 for each in raised.value.mistakes)

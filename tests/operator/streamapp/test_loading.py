"""A manifest's file becomes a StreamApp, and goes back to the same manifest."""

import re
from pathlib import Path

import pytest

from tests.operator.streamapp.builders import a_manifest, a_stream_app
from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.loading import (
    find_jar,
    load_manifest,
    parse_manifest,
    read_document,
)
from weir_operator.streamapp.managers import Allowed, RescaleVia
from weir_operator.streamapp.models import Mode, State
from weir_policies.model.objective import Statistic
from weir_policies.policy import Sharing
from weir_simulator.validation import MOST_MISTAKES

MANIFESTS = Path(__file__).parent / "manifests"


def refusal(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidStreamAppError) as refused:
        load_manifest(path)
    (sentence,) = refused.value.mistakes
    return sentence


def test_a_short_manifest_gets_sensible_defaults():
    spec = load_manifest(MANIFESTS / "short.yaml").spec

    assert (spec.mode, spec.state) == (Mode.AUTO, State.RUNNING)
    assert spec.objective.response_time.bound.seconds == 0.2
    assert spec.objective.response_time.statistic is Statistic.MEAN
    assert spec.objective.max_violations.share == 0.05
    assert spec.flink.max_parallelism == 720
    assert [size.cores for size in spec.node_pools[0].sizes] == [1.0]
    assert spec.operators == ()
    assert spec.operator_manager.policy.name == "planner"
    assert spec.operator_manager.interval.seconds == 60
    assert spec.application_manager.restart_budget.refill_every.seconds == 3600
    assert spec.rescale.via is RescaleVia.AUTO


def test_a_full_manifest_is_read_field_by_field():
    app = load_manifest(MANIFESTS / "full.yaml")
    spec = app.spec

    assert (app.metadata.name, app.metadata.namespace) == ("trips", "streams")
    assert spec.flink.job is not None
    assert spec.flink.job.args == ("--window", "5m")
    assert spec.objective.paths[0].response_time.bound.seconds == 0.1
    assert spec.objective.catch_up.seconds == 300
    assert [pool.speedup for pool in spec.node_pools] == [None, 1.6]
    assert spec.node_pools[0].memory.bytes == 2**30
    assert [operator.sharing for operator in spec.operators] == [None, Sharing.EQUAL, None]
    assert spec.operators[1].managed_memory is not None
    assert spec.operators[1].managed_memory.bytes == 256 * 2**20
    assert spec.operator_manager.policy.settings == {"horizon": 5}
    assert spec.windows[0].allow is Allowed.SCALE_OUT
    assert spec.windows[0].min_replicas == {"tokenize": 4}
    assert spec.objective.max_cost_per_hour == 2.5


def as_written(app):
    return app.model_dump(
        mode="json", by_alias=True, include={"metadata", "spec"}, exclude_unset=True
    )


@pytest.mark.parametrize("name", ["short.yaml", "full.yaml"])
def test_a_round_trip_keeps_every_word(name):
    path = MANIFESTS / name

    written = as_written(load_manifest(path))

    document = read_document(path.read_text())
    assert isinstance(document, dict)
    assert written == {key: document[key] for key in ("metadata", "spec")}


@pytest.mark.parametrize("form", ["1m", {"bound": "60s"}, {"bound": "60s", "statistic": "P95"}])
def test_a_response_time_is_written_as_briefly_as_it_was_read(form):
    app = a_stream_app(objective={"responseTime": form})

    written = as_written(app)

    brief = "60s" if form == {"bound": "60s"} else form
    assert written["spec"]["objective"]["responseTime"] == brief


def test_what_kubernetes_adds_is_kept_and_a_status_is_not_read():
    manifest = a_manifest() | {
        "metadata": {"name": "trips", "uid": "42", "generation": 3},
        "status": {"anything": True},
    }

    app = parse_manifest(manifest)

    assert app.metadata.model_extra == {"uid": "42", "generation": 3}


def test_the_defaults_that_the_api_server_fills_in_change_no_verdict():
    manifest = a_manifest(
        mode="Advise",
        flink={
            "ref": {"kind": "FlinkDeployment", "name": "trips"},
            "maxParallelism": 720,
            "jobManager": {"cpu": "500m", "memory": "1Gi"},
        },
        fallback={"after": "10m", "deployment": "Hold"},
    )

    app = parse_manifest(manifest)

    assert app.spec.flink.ref is not None


def test_a_missing_file_is_refused_with_its_path(tmp_path):
    path = tmp_path / "absent.yaml"

    with pytest.raises(InvalidStreamAppError) as refused:
        load_manifest(path)

    assert str(path) in str(refused.value)
    assert "correct the path" in str(refused.value)


def test_broken_yaml_is_refused_with_its_line(tmp_path):
    sentence = refusal(tmp_path / "app.yaml", "kind: StreamApp\nspec: [1, 2\nmode: Auto\n")

    assert sentence.startswith("line 3, column 5: expected YAML")


def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path):
    sentence = refusal(tmp_path / "app.yaml", "kind: StreamApp\nspec:\n  mode: Auto\n  mode: x\n")

    assert sentence.startswith("line 4, column 3: ")
    assert "duplicate key 'mode'" in sentence


def test_control_characters_are_refused(tmp_path):
    assert "expected YAML" in refusal(tmp_path / "app.yaml", "kind: \x00")


def test_other_encodings_are_refused(tmp_path):
    assert "save the manifest as UTF-8" in refusal(tmp_path / "app.yaml", b"kind: \xff")


@pytest.mark.parametrize("value", ["9" * 5000, "2026-13-45"], ids=["number", "date"])
def test_what_only_looks_like_a_number_or_a_date_is_refused(tmp_path, value):
    sentence = refusal(tmp_path / "app.yaml", f"kind: StreamApp\nspec: {value}\n")

    assert "expected YAML, got a value that cannot be read" in sentence
    assert sentence.endswith("write it in quotes")


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a: 1\n---\nb: 2\n", 2)])
def test_a_file_holds_one_document(tmp_path, text, count):
    sentence = refusal(tmp_path / "app.yaml", text)

    assert re.search(rf"expected one .*document, got {count};", sentence)


def test_a_list_is_no_manifest(tmp_path):
    assert refusal(tmp_path / "app.yaml", "- 1\n- 2\n").startswith(
        f"{tmp_path / 'app.yaml'}: expected a mapping with apiVersion, kind, metadata and spec, "
        "got [1, 2]"
    )


def test_another_kind_is_refused_for_its_kind_alone(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text("apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 1}\n")

    with pytest.raises(InvalidStreamAppError) as refused:
        load_manifest(path)

    assert refused.value.mistakes == (
        "apiVersion: expected weir.dev/v1alpha1, got 'apps/v1'; "
        "write apiVersion: weir.dev/v1alpha1",
        "kind: expected StreamApp, got 'Deployment'; write kind: StreamApp",
    )


def test_a_flink_deployment_is_refused_with_the_command_that_adopts_it(tmp_path):
    text = "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nspec: {image: a}\n"

    assert refusal(tmp_path / "app.yaml", text) == (
        "kind: expected StreamApp, got 'FlinkDeployment'; `weir adopt NAME` prints the StreamApp "
        "for a FlinkDeployment whose job runs"
    )


def test_a_jar_is_found_beside_the_manifest(tmp_path):
    app = a_stream_app(flink={"job": {"jar": "build/trips.jar"}})
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "trips.jar").touch()

    jar = find_jar(app, tmp_path / "app.yaml")

    assert jar == (tmp_path / "build" / "trips.jar").resolve()


@pytest.mark.parametrize(
    ("flink", "remedy"),
    [
        ({"job": {"jar": "build/trips.jar"}}, "build it, or correct its path"),
        ({"image": "trips:1"}, "add its path"),
    ],
)
def test_a_jar_that_is_not_there_is_refused(tmp_path, flink, remedy):
    app = a_stream_app(flink=flink)

    with pytest.raises(InvalidStreamAppError, match=remedy) as refused:
        find_jar(app, tmp_path / "app.yaml")

    assert str(refused.value).startswith("spec.flink.job.jar: expected ")


def test_a_field_that_is_null_is_not_there_as_on_the_api_server():
    app = a_stream_app(mode=None, rescale=None, objective={"responseTime": "1s", "catchUp": None})

    assert app == a_stream_app(objective={"responseTime": "1s"})


def test_null_in_a_policys_own_settings_is_a_value():
    policy = {"name": "planner", "settings": {"horizon": None}}

    app = a_stream_app(operatorManager={"policy": policy})

    assert app.spec.operator_manager.policy.settings == {"horizon": None}


def nested(levels):
    value: object = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [40, 5000])
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (lambda deep: {"flink": {"image": "x:1", "podTemplate": {"spec": deep}}},
         "spec.flink.podTemplate"),
        (lambda deep: {"operatorManager": {"policy": {"settings": {"x": deep}}}},
         "spec.operatorManager.policy"),
        (lambda deep: {"objective": deep}, "spec.objective.a"),
    ],
)  # fmt: skip
def test_what_is_nested_too_deeply_is_refused_in_one_sentence(levels, spec, field):
    with pytest.raises(InvalidStreamAppError) as refusal:
        parse_manifest(a_manifest(**spec(nested(levels))))

    [sentence] = refusal.value.mistakes
    assert sentence.startswith(f"{field}: expected at most 32 levels of nesting")


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 5000 + "]" * 5000)

    with pytest.raises(InvalidStreamAppError, match="levels of nesting"):
        load_manifest(path)


def test_aliases_that_stand_for_very_much_are_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    with pytest.raises(InvalidStreamAppError, match="at most 10000 values"):
        parse_manifest(read_document("\n".join(lines)))


def test_the_name_of_the_controllers_own_canary_is_refused():
    manifest = a_manifest()
    manifest["metadata"]["name"] = "weir-canary"

    with pytest.raises(InvalidStreamAppError) as refused:
        parse_manifest(manifest)

    [sentence] = refused.value.mistakes
    assert re.match("metadata.name: expected .*, got 'weir-canary'; ", sentence)


def test_of_thousands_of_unknown_fields_the_number_is_told():
    spec = {f"nonsense{number}": 1 for number in range(9_000)}

    with pytest.raises(InvalidStreamAppError) as raised:
        parse_manifest({**a_manifest(), "spec": spec})

    assert any("more mistakes" in each for each in raised.value.mistakes)


LONG = [f"an-operator-with-the-longest-name-of-this-job-{n:03}" for n in range(100)]
ALIKE = [f"an-operator-with-the-langest-name-of-this-job-{n:03}" for n in range(100)]
WINDOW = {"schedule": "0 17 * * 1-5", "duration": "2h"}
MANY_MISTAKES = {
    "unknown fields": {f"nonsense{number}": 1 for number in range(9_000)},
    "unknown operators of windows": {
        "operators": [{"name": name} for name in LONG],
        "windows": [
            {"name": f"w{n}", "minReplicas": dict.fromkeys(ALIKE, 1), **WINDOW} for n in range(50)
        ],
    },
    "operators of one name": {"operators": [{"name": LONG[0]}] * 100},
}


@pytest.mark.parametrize("spec", MANY_MISTAKES.values(), ids=MANY_MISTAKES)
def test_of_thousands_of_mistakes_the_first_are_told(spec):
    manifest = a_manifest(**spec)

    with pytest.raises(InvalidStreamAppError) as raised:
        parse_manifest(manifest)

    assert MOST_MISTAKES <= len(raised.value.mistakes) <= 2 * MOST_MISTAKES
    assert raised.value.mistakes[0].startswith("spec.")


def test_floors_may_cost_just_the_limit_although_floats_add_up_to_more():
    floors = [{"name": "match", "minReplicas": 3}]
    pools = [{"name": "small", "price": "0.1"}]
    objective = {"responseTime": "200ms", "maxCostPerHour": "0.35"}  # 0.05 is the JobManager's
    assert 0.05 + 3 * 0.1 > 0.35

    app = parse_manifest(a_manifest(objective=objective, nodePools=pools, operators=floors))

    assert app.spec.objective.max_cost_per_hour == 0.35

"""What the example jobs do with the time that a record takes: wait, or burn CPU."""

import pytest

pytestmark = pytest.mark.flink

RECORDS, EACH_MS = 40, 5.0


@pytest.fixture
def twice_as_fast(tmp_path, monkeypatch):
    """Let the replica have the speed 2."""
    file = tmp_path / "speed"
    file.write_text("2.0\n")
    monkeypatch.setenv("WEIR_SPEED_FILE", str(file))


def serve(ask, work, *options):
    """Return the ms that serving all records took, and the ms of CPU."""
    (answer,) = ask("work", RECORDS, "--work", work, "--service.match-ms", EACH_MS, *options)
    passed, burned = (float(number) for number in answer.split())
    return passed, burned


def test_waiting_takes_time_by_the_replicas_speed_and_hardly_any_cpu(ask, twice_as_fast):
    passed, burned = serve(ask, "wait")

    assert passed >= RECORDS * EACH_MS / 2 - 1  # the last record may be a millisecond early
    assert burned < passed / 2


@pytest.mark.parametrize(("work", "speed"), [("burn", 2), ("limited", 1)])
def test_burned_cpu_follows_the_speed_unless_something_else_limits_it(
    ask, twice_as_fast, work, speed
):
    _, burned = serve(ask, work)

    assert burned == pytest.approx(RECORDS * EACH_MS / speed, rel=0.3)


def test_one_operator_may_wait_while_the_others_burn(ask):
    passed, burned = serve(ask, "limited", "--work.match", "wait")

    assert burned < passed / 2


def test_work_of_an_unknown_kind_is_refused_by_name(run_java):
    answer = run_java("Probe", "work", "1", "--work", "sleep")

    assert "Expected wait, burn or limited after --work, got sleep" in answer.stderr

import pytest

from weir_operator.flink.causes import cause_in_log, find_misfitting_state, root_cause
from weir_operator.limits import SENTENCE

TRACE = """\
org.apache.flink.util.FlinkException: Could not execute application.
\tat org.apache.flink.client.Runner.run(Runner.java:1)
Caused by: java.util.concurrent.CompletionException: org.apache.flink.Wrapper: outer
\t... 4 more
Caused by: java.lang.IllegalStateException: told to fail
\tat Job.main(Job.java:18)
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TRACE, "IllegalStateException: told to fail"),
        ("java.io.IOException: disk full", "IOException: disk full"),
        ("org.a.SerializedThrowable: java.io.IOException: disk full", "IOException: disk full"),
        ("java.lang.NullPointerException", "NullPointerException"),
        ("<Exception on server side:\njava.lang.Error: x\n\tat a.b(C.java)", "Error: x"),
        ("Job 12 not found", "Job 12 not found"),
        (
            "java.lang.ClassNotFoundException: example.Trips",
            "ClassNotFoundException: example.Trips",
        ),
        ("a.CompletionException: java.lang.StackOverflowError", "StackOverflowError"),
        ("Caused by: told: by a colon", "told: by a colon"),
        ("NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g\njava.lang.Error: x", "Error: x"),
        ("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava.lang.Error: x", "Error: x"),
        ("", "no cause given"),
    ],
)
def test_the_innermost_cause_is_told(text, sentence):
    assert root_cause(text) == sentence


def test_a_cause_is_cut_to_what_can_be_read():
    sentence = root_cause("java.io.IOException: " + "x" * 10_000)

    assert len(sentence) == SENTENCE
    assert sentence.endswith("...")


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (f"2026-01-01 INFO starting\n{TRACE}2026-01-01 INFO ended\n", "told to fail"),
        (
            "Unrecognized VM option 'Nope'\n"
            "Error: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.\n",
            "Unrecognized VM option 'Nope'",
        ),
        ("INFO a\nERROR the port is taken\n\tat a.b(C.java)\nINFO bye\n", "the port is taken"),
        ("INFO only\nINFO lines\n", "INFO lines"),
        ("", "its log is empty"),
    ],
)
def test_a_log_is_told_by_its_last_error(log, sentence):
    assert sentence in cause_in_log(log)


def test_state_that_does_not_fit_a_program_names_the_operator():
    trace = (
        "Caused by: java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint "
        "file:/s/savepoint-9e1538. Cannot map checkpoint/savepoint state for operator "
        "8986b10356394fd95e4b0ecfdf2cbbbf to the new program, because the operator is not available"
    )

    assert find_misfitting_state(trace) == "its operator 8986b10356394fd95e4b0ecfdf2cbbbf is gone"
    assert find_misfitting_state("Caused by: java.io.IOException: disk full") is None

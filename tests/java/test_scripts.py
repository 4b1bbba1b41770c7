"""SQL scripts as the JobManager runs them: where statements end, and what is a job."""

import os
import subprocess
from pathlib import Path

import pytest

from weir_operator.flink.jars import KEYS, REPOSITORY, build_jar, class_path, find_java

pytestmark = [pytest.mark.flink, pytest.mark.timeout(300)]

TABLES = """\
CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE nowhere (id BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE odd (id BIGINT) WITH ('connector' = 'no-such');
"""
INSERT = "INSERT INTO nowhere SELECT id FROM numbers;\n"
ALIGNED = "SET 'execution.checkpointing.unaligned' = 'false';\n"
NAME = "SET 'pipeline.name' = 'mine';\n"
DEFAULT = "insert-into_default_catalog.default_database.nowhere"
ABSENT = (
    "expected a connector, format, catalog or module 'no-such', got none; put its jar into "
    "/opt/flink/usrlib, or its URL into pipeline.classpaths of spec.flink.config"
)
SPLIT = {
    "statements end at semicolons": ("a; b\n;c", ["1 a", "1 b", "2 c"]),
    "nothing is no statement": ("\n;; ;\n", []),
    "comments are no statement": ("-- a; b\n/* c; */\n--", []),
    "a comment takes no part, nor do its quotes": (
        "a -- it's; here\nb /* `;\n' */ c; d",
        ["1 a b c", "3 d"],
    ),
    "a hint is no comment": ("a /*+ X('y'='z;') */ b", ["1 a /*+ X('y'='z;') */ b"]),
    "quoted text is kept": (
        "a 'x;''y;--' `b;/*` c; d",
        ["1 a 'x;''y;--' `b;/*` c", "1 d"],
    ),
    "a quote that is open takes the rest": ("a 'x; b", ["1 a 'x; b"]),
    "lines may end as on Windows": ("-- a\r\nb;\r\n\r\nc\r\n d;\r\n", ["2 b", "4 c d"]),
    "a set in one statement becomes statements": (
        "Execute Statement\n Set /* ; */ Begin a; b;END;\nc;",
        ["1 BEGIN STATEMENT SET", "2 a", "2 b", "2 END", "3 c"],
    ),
    "END needs no blank and no line": (
        "EXECUTE STATEMENT SET BEGIN a;END;b",
        ["1 BEGIN STATEMENT SET", "1 a", "1 END", "1 b"],
    ),
    "an END of a CASE ends no set": (
        "EXECUTE STATEMENT SET BEGIN\n a CASE WHEN x THEN y END; END;\nb",
        ["1 BEGIN STATEMENT SET", "2 a CASE WHEN x THEN y END", "2 END", "3 b"],
    ),
    "an explained set is one statement": (
        "EXPLAIN STATEMENT SET BEGIN\na CASE END; -- b;\nc 'END;';\nend ; d;",
        ["1 EXPLAIN STATEMENT SET BEGIN a CASE END; c 'END;'; end", "4 d"],
    ),
    "a set is explained with details, too": (
        "EXPLAIN CHANGELOG_MODE, PLAN_ADVICE STATEMENT SET BEGIN a;END;b",
        ["1 EXPLAIN CHANGELOG_MODE, PLAN_ADVICE STATEMENT SET BEGIN a;END", "1 b"],
    ),
    "quoted words begin no set": (
        "EXPLAIN 'x STATEMENT SET BEGIN'; a; b",
        ["1 EXPLAIN 'x STATEMENT SET BEGIN'", "1 a", "1 b"],
    ),
    "a longer word begins no set": (
        "EXECUTE STATEMENT SET BEGINS; a",
        ["1 EXECUTE STATEMENT SET BEGINS", "1 a"],
    ),
}
RUN = {
    "an INSERT INTO is the job": (TABLES + INSERT, f"job {DEFAULT}"),
    "a script of Windows is one": ((TABLES + NAME + INSERT).replace("\n", "\r\n"), "job mine"),
    "EXECUTE begins a set": (
        TABLES + NAME + f"EXECUTE STATEMENT SET BEGIN {INSERT}{INSERT.strip()}END;\nSHOW TABLES;",
        "job mine",
    ),
    "a CASE may end a statement of a set": (
        TABLES + NAME + "BEGIN STATEMENT SET;\nINSERT INTO nowhere SELECT CASE WHEN id > 1 THEN 2"
        " END FROM numbers WHERE 1 = CASE WHEN id > 1 THEN 1 END;END;",
        "job mine",
    ),
    "an explained set is skipped": (
        TABLES + f"EXPLAIN STATEMENT SET BEGIN {INSERT}{INSERT}END;\n{NAME}{INSERT}",
        "job mine",
    ),
    "a mark before the script is no part of it": ("\ufeff" + TABLES + INSERT, f"job {DEFAULT}"),
    "a SET under an older name wins over what Weir recommends": (
        TABLES + NAME + ALIGNED + INSERT,
        "job mine aligned",
    ),
    "of two names, the key's own wins": (
        TABLES
        + NAME
        + "SET 'execution.checkpointing.unaligned.enabled' = 'true';\n"
        + ALIGNED
        + INSERT,
        "job mine unaligned",
    ),
    "RESET takes a SET under an older name back": (
        TABLES + NAME + ALIGNED + "RESET 'execution.checkpointing.unaligned';\n" + INSERT,
        "job mine unaligned",
    ),
    "RESET takes all SETs back": (TABLES + NAME + "RESET;\n" + INSERT, f"job {DEFAULT}"),
    "RESET takes one SET back": (
        TABLES + NAME + "RESET 'pipeline.name';\n" + INSERT,
        f"job {DEFAULT}",
    ),
    "RESET leaves other SETs": (
        TABLES + NAME + "RESET 'table.exec.source.idle-timeout';\n" + INSERT,
        "job mine",
    ),
    "what is set behind the job is not of the job": (
        TABLES + NAME + INSERT + "RESET;\nSET 'pipeline.name' = 'other';",
        "job mine",
    ),
    "a name that is not there": (
        TABLES + "\nINSERT INTO nowhere\nSELECT id FROM missing",
        "refused q.sql, line 5: Object 'missing' not found",
    ),
    "a sentence that does not parse": (
        TABLES + "INSERT INTO nowhere\nSELEC id FROM numbers",
        "refused q.sql, line 4: ",
    ),
    "a connector that is not there": (
        TABLES + "INSERT INTO nowhere\nSELECT id FROM odd",
        f"refused q.sql, line 4: {ABSENT}",
    ),
    "a connector that is not there, in a set": (
        TABLES + f"BEGIN STATEMENT SET;\n{INSERT}INSERT INTO odd SELECT id FROM numbers;\nEND;",
        f"refused q.sql, line 6: {ABSENT}",
    ),
    "the same in a set of one statement": (
        TABLES
        + f"EXECUTE STATEMENT SET BEGIN\n{INSERT}INSERT INTO odd SELECT id FROM numbers;END;",
        f"refused q.sql, line 6: {ABSENT}",
    ),
    "a catalog that is not there": (
        "CREATE CATALOG c WITH ('type' = 'no-such')",
        f"refused q.sql, line 1: {ABSENT}",
    ),
    "a catalog of no name": ("USE CATALOG missing", "refused q.sql, line 1: "),
    "a jar that is not there": ("\nADD JAR '/no/such.jar'", "refused q.sql, line 2: "),
    "a catalog that does not answer": (
        TABLES + "CREATE CATALOG c WITH ('type' = 'down');\n" + INSERT,
        "failed q.sql, line 4: Connection refused",
    ),
    "a JobManager that does not accept the job": (
        TABLES + "SET 'pipeline.name' = 'not accepted';\n" + INSERT,
        "other ",
    ),
    "a second job": (
        TABLES + INSERT + "-- once more\n" + INSERT,
        "refused q.sql, line 6: expected one job, got a second one; put all INSERT INTO between",
    ),
    "a query alone": (
        TABLES + "SELECT * FROM numbers",
        "refused q.sql, line 4: expected statements of a job, got a query whose rows nothing takes",
    ),
    "what cannot be run again": (
        TABLES + "DROP TABLE numbers;",
        "refused q.sql, line 4: expected SET, CREATE, USE or INSERT INTO, got DROP TABLE numbers;",
    ),
    "a query in CREATE TABLE": (
        TABLES + "CREATE TABLE more WITH ('connector' = 'blackhole') AS SELECT id FROM numbers",
        "refused q.sql, line 4: expected CREATE TABLE without AS, got a query in it",
    ),
    "a parallelism of its own": (
        TABLES + "SET 'parallelism.default' = '4'",
        "refused q.sql, line 4: expected no SET of parallelism.default, got 4; remove it",
    ),
    "a key of Weir's": (
        TABLES + "SET 'jobmanager.scheduler' = 'Adaptive'",
        "refused q.sql, line 4: expected no SET of jobmanager.scheduler, got Adaptive; remove it",
    ),
    "a key of Weir's under an older name": (
        TABLES + "SET 'state.backend.fs.checkpointdir' = 's3://b'",
        "refused q.sql, line 4: expected no SET of state.backend.fs.checkpointdir, got s3://b; set"
        " spec.flink.storage instead",
    ),
    "a savepoint under an older name": (
        TABLES + "SET 'execution.savepoint.path' = 's3://b'",
        "refused q.sql, line 4: expected no SET of execution.savepoint.path, got s3://b; set"
        " spec.flink.job.initialSavepoint instead",
    ),
    "a key that begins as Weir's do": (
        TABLES + "SET 'external-resource.gpu.amount' = '1'",
        "refused q.sql, line 4: expected no SET of external-resource.gpu.amount, got 1; remove it",
    ),
    "what is not in UTF-8": (
        b"-- caf\xe9\n",
        "refused q.sql: expected text in UTF-8, got another encoding; save it as UTF-8",
    ),
    "a batch job": (
        TABLES + "SET 'execution.runtime-mode' = 'batch'",
        "refused q.sql, line 4: expected no SET of execution.runtime-mode, got batch; remove it",
    ),
    "an open set": (
        TABLES + f"EXECUTE STATEMENT SET BEGIN {INSERT}",
        "refused q.sql: expected END",
    ),
    "nothing": ("-- nothing\r\n;", "refused q.sql: expected an INSERT INTO"),
}


@pytest.fixture(scope="module")
def run_scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    services = folder / "META-INF/services/org.apache.flink.table.factories.Factory"
    services.parent.mkdir(parents=True)
    services.write_text("dev.weir.ScriptProbe$DownFactory\n")
    sources = [
        REPOSITORY / "java/dev/weir/RunScript.java",
        Path(__file__).with_name("ScriptProbe.java"),
    ]
    jar = build_jar(sources, folder / "scripts.jar", resources=KEYS)

    def run(scripts, *options):
        files = []
        for number, script in enumerate(scripts):
            files.append(folder / f"{number}.sql")
            files[-1].write_bytes(script if isinstance(script, bytes) else script.encode())
        path = os.pathsep.join([str(jar), str(folder), class_path()])
        opens = "--add-opens=java.base/java.util=ALL-UNNAMED"
        command = [find_java(), opens, "-cp", path, "dev.weir.ScriptProbe", *options, *files]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    return run


@pytest.fixture(scope="module")
def becomes(run_scripts):
    """What becomes of each script: one JVM runs them all."""
    return dict(zip(RUN, run_scripts([script for script, _ in RUN.values()]), strict=True))


@pytest.fixture(scope="module")
def statements(run_scripts):
    """The statements of each text."""
    lines = run_scripts([text for text, _ in SPLIT.values()], "split")
    found, rest = {}, iter(lines)
    for name in SPLIT:
        found[name] = list(iter(lambda: next(rest), "end"))
    return found


@pytest.mark.parametrize("name", SPLIT)
def test_a_script_is_split_into_statements_with_their_lines(statements, name):
    assert statements[name] == SPLIT[name][1]


@pytest.mark.parametrize("name", RUN)
def test_a_script_becomes_a_job_or_is_refused_with_its_line(becomes, name):
    assert becomes[name].startswith(RUN[name][1])

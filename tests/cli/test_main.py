import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from weir_cli import main
from weir_operator.errors import InvalidStreamAppError, TemporaryError
from weir_policies.errors import WeirPolicyError
from weir_simulator.errors import TraceError

HEAVY = ("torch", "scipy", "numpy", "plotly", "aiohttp", "pydantic", "prometheus_api_client")


def run(*arguments):
    return CliRunner().invoke(main.app, arguments)


def raising(error):
    def command() -> None:
        raise error

    return lambda name: typer.main.get_command(_single(name, command))


def _single(name, command):
    app = typer.Typer(add_completion=False)
    app.command(name)(command)
    return app


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_and_version_import_nothing_heavy(arguments):
    script = (
        "import sys; from weir_cli.main import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        f"print('IMPORTED', [name for name in {HEAVY!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "IMPORTED []", done.stderr


def test_the_help_lists_every_command():
    result = run("--help")

    assert result.exit_code == 0
    for name in main.COMMANDS:
        assert f" {name} " in result.output


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_listed_line_is_what_the_command_says_of_itself(name):
    command = main.load_command(name)

    assert command.help.splitlines()[0] == main.COMMANDS[name][1]


def test_the_version_is_the_installed_one():
    result = run("--version")

    assert result.output.startswith("weir 0.")
    assert result.exit_code == 0


def test_a_misspelt_command_is_answered_with_the_nearest_one():
    result = run("trace")

    assert result.exit_code == 2
    assert "Did you mean 'traces'?" in result.output


@pytest.mark.parametrize("package", main.EXTRAS)
def test_a_package_that_only_an_extra_brings_is_named_with_the_extra_and_the_image(
    monkeypatch, package
):
    missing = ModuleNotFoundError(f"No module named '{package}.sql'", name=f"{package}.sql")
    monkeypatch.setattr(main, "load_command", raising(missing))

    result = run("simulate")

    extra, image = main.EXTRAS[package]
    [line] = result.stderr.splitlines()
    assert result.exit_code == 1
    assert {f"{package},", f"'weir-flink[{extra}]',"} <= set(line.split())
    assert line.endswith(image)


@pytest.mark.parametrize(
    "arguments",
    [
        ["pipelines", "export", "--prometheus", "http://it"],
        ["pipelines", "import", "dump.txt"],
        ["pipelines", "run", "--prometheus", "http://it"],
        ["pipelines", "events", "log.csv", "--column", "at", "--app", "taxi"],
        ["pipelines", "trace", "out.txt", "--app", "a", "--operator", "o"],
    ],
)
def test_without_their_extra_the_pipelines_say_what_to_install(arguments, tmp_path):
    script = (
        "import sys\n"
        "for name in ('pyspark', 'pyarrow', 'prometheus_api_client'): sys.modules[name] = None\n"
        "from weir_cli.main import app; app(sys.argv[1:])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "pip install 'weir-flink[spark]'" in line


@pytest.mark.parametrize(
    "error",
    [
        TemporaryError("Expected Flink at :8081, got no answer: is it running?"),
        InvalidStreamAppError(("objective: give a bound.", "nodePools: give one.")),
        WeirPolicyError("Expected counts >= 0, got (-1,)"),
        TraceError("Trace x, line 2: 'two' is not a rate"),
    ],
)
def test_weirs_own_errors_are_sentences_on_stderr_and_exit_code_one(monkeypatch, error):
    monkeypatch.delenv("WEIR_DEBUG", raising=False)
    monkeypatch.setattr(main, "load_command", raising(error))

    result = run("crd")

    assert result.exit_code == 1
    assert result.stderr == f"Error: {error}\n"
    assert result.stdout == ""


def test_with_weir_debug_the_error_itself_comes_out(monkeypatch):
    error = TemporaryError("Expected Flink, got no answer")
    monkeypatch.setenv("WEIR_DEBUG", "1")
    monkeypatch.setattr(main, "load_command", raising(error))

    result = run("crd")

    assert result.exception is error


def test_a_defect_of_weir_is_not_dressed_up_as_a_users_mistake(monkeypatch):
    monkeypatch.setattr(main, "load_command", raising(KeyError("oops")))

    result = run("crd")

    assert isinstance(result.exception, KeyError)

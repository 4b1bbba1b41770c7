"""Writes the reference pages that are made from the code: of the StreamApp, and of the command.

    python scripts/references.py            write them
    python scripts/references.py --check    fail where one is stale, write nothing

The page of the StreamApp comes from the CRD, so from the same models that judge a manifest; the
page of the command from the very objects that parse it. Nothing is described here.
"""

# ruff: noqa: INP001  (a script, not a package)
from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from weir_cli.main import COMMANDS, load_command
from weir_operator.streamapp.crd import crd

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs/reference"

Schema = dict[str, Any]
"""Part of the CRD's schema, as plain values."""

RULES = "x-kubernetes-validations"

STREAM_APP_HEAD = """\
# StreamApp reference

This page describes every field of a StreamApp. `kubectl explain streamapp.spec` shows the same.
Only `flink`, `objective` and `nodePools` are required. You may leave out any other field, unless
its description says that it is required.

The API server rejects a wrong manifest with the messages under *Refused*. `weir validate` finds the
same mistakes before you apply it. [First steps](../first-steps.md) has a short manifest that works;
[Operating](../operating.md) explains what the fields do to a running job.
"""

COMMAND_HEAD = """\
# Command reference

Every command of `weir`, with its arguments and options. `weir COMMAND --help` shows the same.

For a mistake in a file or a value, `weir` prints a message on standard error and exits with code 1.
For a mistake in the command line, it exits with code 2. `WEIR_DEBUG=1` shows where the error was
raised.
"""


def written_files() -> dict[Path, str]:
    """Return what the pages should hold."""
    return {PAGES / "streamapp.md": stream_app_page(), PAGES / "weir.md": command_page()}


def stream_app_page() -> str:
    """Return the page of the StreamApp: a section for each object in it."""
    [version] = crd()["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    sections = [
        *_object_sections("spec", schema["spec"]),
        *_object_sections("status", schema["status"]),
    ]
    columns = [
        f"| `{each['name']}` | {each['description']} | {'wide' if 'priority' in each else ''} |"
        for each in version["additionalPrinterColumns"]
    ]
    listed = [
        "## Columns\n\nWhat `kubectl get streamapps` shows; *wide* only with `--output wide`.\n",
        "| column | what | |\n|---|---|---|",
        *columns,
    ]
    return _page(STREAM_APP_HEAD, "\n".join([*sections, *listed, ""]))


def _object_sections(path: str, schema: Schema) -> Iterator[str]:
    """Yield the section of an object and of those inside it, in the order of their fields."""
    required = schema.get("required", ())
    yield f"## `{path}`\n\n{schema.get('description', '')}\n"
    yield "| field | type | default | what |\n|---|---|---|---|"
    inner = []
    for name, each in schema["properties"].items():
        below = _below(f"{path}.{name}", each)
        default = "required" if name in required else _default(each, has_section=below is not None)
        shown = f"`{name}`" if below is None else f"[`{name}`](#{_anchor(below[0])})"
        yield f"| {shown} | {_type(each)} | {default} | {_cell(each.get('description', ''))} |"
        if below is not None:
            inner.append(below)
    yield ""
    yield from _refusals(schema)
    for each_path, each in inner:
        yield from _object_sections(each_path, each)


def _below(path: str, schema: Schema) -> tuple[str, Schema] | None:
    """Return path and schema of the object that a field holds, or a list of it.

    None where there is no object, or one that nothing is said of: it is as in Kubernetes.
    """
    if "properties" in schema:
        return path, schema
    items = schema.get("items", {})
    return (f"{path}[]", items) if "properties" in items and "description" in items else None


def _anchor(path: str) -> str:
    return "".join(letter for letter in path.lower() if letter.isalnum())


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    if "x-kubernetes-int-or-string" in schema:
        return "integer or string"
    return str(schema.get("type", "string or object" if "properties" in schema else "any"))


def _default(schema: Schema, *, has_section: bool) -> str:
    """Return a field's default; that of an object stands at the fields of its own section."""
    if "default" not in schema or (has_section and isinstance(schema["default"], dict)):
        return ""
    return f"`{json.dumps(schema['default'])}`"


def _refusals(schema: Schema) -> Iterator[str]:
    """Yield what of the object and of its plain fields is refused, each sentence once."""
    rules = [(each.get("fieldPath", ""), each) for each in schema.get(RULES, ())]
    for name, field in schema["properties"].items():
        if "properties" not in field:
            rules += [(name, each) for each in field.get(RULES, ())]
    sentences = dict.fromkeys(
        (f"- `{path.lstrip('.')}`: " if path else "- ") + _text(rule["message"])
        for path, rule in rules
    )
    if sentences:
        yield "*Refused:*\n"
        yield from sentences
        yield ""


def command_page() -> str:
    """Return the page of the command: a section for each command of the group."""
    sections = [part for name in COMMANDS for part in _sections_of(load_command(name), name)]
    return _page(COMMAND_HEAD, "\n".join(sections))


def _sections_of(command: Any, name: str) -> Iterator[str]:  # Any: Typer's own class is not public
    """Yield the section of a command, then those of the commands that it groups."""
    context = typer.Context(command, info_name=name)
    options = [each for each in command.params if each.param_type_name == "option"]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    inner = getattr(command, "commands", {})
    usage = [
        *(["COMMAND"] if inner else []),
        *(["[OPTIONS]"] if options else []),
        *(each.metavar or each.name.upper() for each in arguments),
    ]
    yield f"## `weir {name}`\n"
    yield f"{_text(inspect.cleandoc(command.help or ''))}\n"
    yield f"```text\nweir {name} {' '.join(usage)}\n```\n"
    records = [each.get_help_record(context) for each in [*arguments, *options]]
    if records:
        yield "| | what |\n|---|---|"
        for term, what in records:
            shown = term.replace("|", r"\|")
            yield f"| `{shown}` | {_cell(what)} |"
        yield ""
    for each_name, each in inner.items():
        yield from _sections_of(each, f"{name} {each_name}")


def _page(head: str, body: str) -> str:
    return f"<!-- Written by `make references` from the code. -->\n{head}\n{body.rstrip()}\n"


def _cell(text: str) -> str:
    """Return a text that may stand in a table's cell."""
    return _text(" ".join(text.split())).replace("|", r"\|")


def _text(text: str) -> str:
    """Return a text in which nothing is taken for a tag."""
    return text.replace("<", r"\<").replace("*", r"\*") if "`" not in text else text


def main(arguments: list[str]) -> int:
    """Write or check the pages; return the exit code."""
    stale = {
        path: text
        for path, text in written_files().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)} is stale: write it again with make references")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The reference of commands, made from the parsers of kernelscope.cli."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path

from markup import cell, prose

from kernelscope.cli import main

DOCS = Path(__file__).resolve().parents[1]
WIDTH = 110  # characters of a usage line

# Where a command has a page of its own
PAGES = {
    "profile": "own-scripts.md", "import": "captures.md", "explain": "explain.md", "gate": "gate.md", "sweep": "sweeps.md",
    "report": "figures.md", "breakdown": "breakdowns.md", "compare": "comparing.md", "device": "device.md",
    "roofline": "device.md", "energy": "energy.md", "agent": "elsewhere.md", "redact": "captures.md", "data": "data.md",
    "env": "frameworks.md", "run": "collectors.md", "export": "export.md", "advise": "advise.md",
    "steps": "steps.md", "classify": "captures.md", "ranks": "ranks.md", "confirm": "confirm.md",
}  # fmt: skip


def page() -> str:
    """Return the page: a section for each subcommand, in the order of `kernelscope --help`."""
    top = main.parser(*main.COMMANDS)
    lines = ["# Commands", "", prose(main.DESCRIPTION), "", prose(main.EPILOG[0].upper() + main.EPILOG[1:]) + ".", ""]
    lines += ["| command | what it does |", "|---|---|"]
    parsers = dict(_subcommands(top))
    lines += [f"| [{name}](#{name}) | {cell(parser_help)} |" for name, parser_help in _summaries(top)]
    for name, parser in parsers.items():
        lines += ["", *_section(name, parser)]
    return "\n".join(lines) + "\n"


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a command's lines: what it does, its usage, its arguments; those of its own subcommands below."""
    level = "#" * (2 + name.count(" "))
    yield f"{level} {name} {{ #{name.replace(' ', '-')} }}"
    yield from ("", prose(parser.description), "") if parser.description else ("",)
    if name in PAGES:
        yield from (f"More: [{_title(PAGES[name])}](../{PAGES[name]})", "")
    parser.formatter_class = functools.partial(argparse.HelpFormatter, width=WIDTH)  # type: ignore[assignment]
    yield from ("```text", parser.format_usage().removeprefix("usage: ").rstrip(), "```", "")
    rows = list(_arguments(parser))
    if rows:
        yield from ("| argument | meaning |", "|---|---|", *rows)
    for sub, below in _subcommands(parser):
        yield ""
        yield from _section(f"{name} {sub}", below)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a table's row for each argument that is not --help or a subcommand."""
    formatter = argparse.HelpFormatter(parser.prog)
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        said = formatter._expand_help(action) if action.help else ""
        if action.choices is not None and action.metavar is None:
            said += f"; one of {', '.join(f'`{choice}`' for choice in action.choices)}"
            action.metavar = "WHICH"
        names = formatter._format_action_invocation(action)
        yield f"| <code>{cell(names, code=True)}</code> | {cell(said)} |"


def _title(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf8").splitlines()[0].removeprefix("# ")


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _summaries(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from ((str(choice.dest), str(choice.help)) for choice in action._choices_actions)

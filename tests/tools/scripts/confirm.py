"""Try what advice and explanations say, on workloads, on plants and on scripts, and set what was claimed against what was seen.

    python tests/tools/scripts/confirm.py [--kind workloads|comparisons|plants|...] [--only WORD] [--rounds 5]

workloads: `advise --confirm` on workloads of every framework. comparisons: `confirm` on comparisons of all frameworks, which
tries that one of which changes may remove most. plants: `explain --confirm` on the pairs that `make planted` has recorded.
scripts: the same on scripts, unchanged and slowed down. slow: `confirm` on programs that are slow by default settings only; a
fifth of the step should go. tuned: on well-tuned ones; nothing should help. nothing: changes that do nothing, on several
programs; none may be confirmed. What was tried before is not tried again: remove the folder to try anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import catalogue
import numpy as np
import recording
from matplotlib.figure import Figure

from kernelscope.analysis.confirm import kept
from kernelscope.analysis.confirm.candidates import Candidate
from kernelscope.analysis.confirm.interventions import Intervention
from kernelscope.analysis.confirm.result import UNCHANGED, tried
from kernelscope.analysis.confirm.runs import read
from kernelscope.analysis.confirm.verdicts import CONFIRMED, PARTLY, VERDICTS
from kernelscope.reports.colours import SERIES
from kernelscope.reports.figures.drawing import SLIDES, Style, canvas, drawing
from kernelscope.reports.figures.files import rendered
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.outside import trials
from kernelscope.tracer.outside.trials import Trial

_KERNELSCOPE = str(Path(sys.executable).with_name("kernelscope"))
_LIMIT_S = 1500
# A batch and steps that take some tens of ms on two cores
NETWORKS = {"lenet": ("64", "40"), "cnn": ("16", "20"), "lstm": ("16", "20"), "gpt2": ("1", "10")}
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "cntk")
# Slowed down in ways of which a change from outside can undo some
SCRIPTS = (
    "vae_one_thread", "gan_no_onednn", "wordlm_anomaly", "encoder_checkpointing", "keras_eager", "keras_py_function",
    "images_loop_augment", "encoder_loop_optimizer",
)  # fmt: skip
# Written with a framework's defaults: MXNet's imperative mode, JAX without jit, PyTorch's layout, optimizers and allocator
SLOW = ("torch_encoder", "mxnet_no_hybridize", "jax_no_jit", "torch_images", "torch_wordlm", "mxnet_gluon", "tf_loop")
TUNED = ("tuned_mlp_torch", "tuned_encoder_torch", "tuned_mlp_tf", "tuned_mlp_mxnet")
NOTHING = ("torch_encoder", "torch_wordlm", "torch_vae", "torch_gan", "keras_fit", "tf_loop", "jax_cnn", "mxnet_gluon")
_TRIES = 5  # changes that do nothing, on each program


Result = dict[str, Any]


def _call(place: Path, *words: str, **variables: str) -> str:
    """Run kernelscope in a folder; return what it prints, or raise Missing with its last line."""
    done = subprocess.run(
        [_KERNELSCOPE, *words], cwd=place, capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    if done.returncode:
        raise recording.Missing((done.stderr.strip().splitlines() or ["it says nothing"])[-1])
    return done.stdout


def _script(name: str, folder: Path) -> Path:
    """Record a program, or one of its changes, in a folder that keeps the script; return the recording."""
    change = next((one for one in catalogue.PLANTS if one.name == name), None)
    program = change.program if change else name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{program}.py").write_text(recording.source(program, change), encoding="utf8")
    if not (folder / "run" / "run.json").is_file():
        interpreter, variables = recording.python(catalogue.PROGRAMS[program])
        command = [str(interpreter), f"{program}.py", *catalogue.ARGUMENTS.get(program, ())]
        _call(folder, "profile", "--quiet", "-o", "run", "--", *command, **variables)
    return folder / "run"


def _workload(name: str, output: Path, rounds: str) -> Result:
    """Try what is advised about a workload: its network, framework and mode."""
    network, framework, mode = name.split()
    batch, steps = NETWORKS[network]
    folder = output / name.replace(" ", "-")
    if not (folder / "run.json").is_file():
        words = (network, "-f", framework, "--mode", mode, "--batch", batch, "--steps", steps, "--repeats", "1")
        _call(output, "run", *words, "-o", str(folder))
    return _confirmed(output, "advise", "--confirm", "--rounds", rounds, str(folder))


def _comparison(name: str, output: Path, rounds: str) -> Result:
    """Try what makes a framework slower than the fastest: a network and a mode."""
    network, mode = name.split()
    folder = output / name.replace(" ", "-")
    if not (folder / "compare.json").is_file():
        batch, steps = NETWORKS[network]
        words = (network, "-f", ",".join(FRAMEWORKS), "--mode", mode, "--batch", batch, "--steps", steps, "--repeats", "3")
        _call(output, "compare", *words, "--skip-missing", "-o", str(folder))
    return _confirmed(output, "confirm", "--rounds", rounds, str(folder))


def _plant(name: str, output: Path, rounds: str) -> Result:
    """Try what makes the slower side of a pair slower, which was recorded with a planted cause."""
    pair = output.parents[1] / "planted" / name
    return _confirmed(output, "explain", "--confirm", "--rounds", rounds, str(pair / "a"), str(pair / "b"))


def _changed(name: str, output: Path, rounds: str) -> Result:
    """Try what makes a script slower than it was."""
    program = next(one.program for one in catalogue.PLANTS if one.name == name)
    before, after = _script(program, output / program), _script(name, output / name)
    return _confirmed(after.parent, "explain", "--confirm", "--rounds", rounds, str(before), str(after))


def _program(name: str, output: Path, rounds: str) -> Result:
    """Try all that is advised about a script."""
    return _confirmed(_script(name, output / name).parent, "confirm", "--rounds", rounds, "run")


def _confirmed(place: Path, *words: str) -> Result:
    said: Result = json.loads(_call(place, words[0], "--format", "json", *words[1:]))
    return dict(said.get("confirmed", said))


def _nothing(name: str, output: Path, rounds: str) -> Result:
    """Try changes of a script that do nothing."""
    folder = _script(name, output / name).parent
    record = json.loads((folder / "run" / "run.json").read_text())
    several = [Intervention(f"nothing-{n}", (), (), "", variables={"KERNELSCOPE_NOTHING": str(n)}) for n in range(_TRIES)]
    sides = [Trial(UNCHANGED), *(Trial(one.name, (), one.variables) for one in several)]
    os.chdir(folder)
    command = [str(Path(part).expanduser()) for part in record["profiled"]]
    found = trials.rounds(command, sides, int(rounds), folder / "nothing", ProfileOptions(), lambda _: None)
    runs = {side: [read(path) for path in paths] for side, paths in found.items()}
    return {"framework": record["framework"], "findings": [], "tried": tried([Candidate(one) for one in several], runs)}


def _names(kind: str, output: Path) -> Sequence[str]:
    """Return the programs of a kind."""
    if kind == "workloads":
        modes = ("train", "infer")
        return [f"{network} {framework} {mode}" for network in NETWORKS for framework in FRAMEWORKS for mode in modes]
    if kind == "comparisons":
        return [f"{network} {mode}" for network in NETWORKS for mode in ("train", "infer")]
    if kind == "plants":
        return sorted(path.parts[-3] for path in output.parent.glob("planted/*/a/run.json"))
    return {"scripts": SCRIPTS, "slow": SLOW, "tuned": TUNED, "nothing": NOTHING}[kind]


KINDS: dict[str, Callable[[str, Path, str], Result]] = {
    "workloads": _workload, "comparisons": _comparison, "plants": _plant, "scripts": _changed, "slow": _program,
    "tuned": _program, "nothing": _nothing,
}  # fmt: skip


def judge(kind: str, name: str, said: Result) -> list[str]:
    """Return lines about one program: of each finding that was tried, or of all together."""
    if kind in ("slow", "tuned"):
        together = said["together"]
        share = together["saved_ns"] / together["step_ns"] if together else 0.0
        return [f"| {name} | {share:.0%} | {', '.join(together['names']) if together else 'nothing helps'} |"]
    if kind == "nothing":
        wrong = [row["name"] for row in said["tried"] if row["verdict"] in (CONFIRMED, PARTLY, "made worse")]
        return [f"| {name} | {len(said['tried'])} | {len(wrong)} |"]
    return [
        f"| {name} | {one['topic']} | {one['confidence'] or ''} | {_ms(one['claimed_ns'])} | {_ms(one['saved_ns'])} | "
        f"{one['change'] or ''} | {one['verdict']}{': ' + one['reason'] if one['reason'] else ''} |"
        for one in said["findings"]
    ]


def _ms(ns: int | None) -> str:
    return "" if ns is None else f"{ns / 1e6:.2f}"


def calibration(verdicts: Sequence[dict[str, Any]], style: Style) -> Figure:
    """Draw what findings claimed against what was seen when they were tried, a mark each."""
    with drawing(style):
        figure = canvas(style, 4.6)
        axes = figure.subplots()
        for place, verdict in enumerate(VERDICTS):
            mine = [one for one in verdicts if one["verdict"] == verdict]
            claimed, seen = ([one[key] / 1e6 for one in mine] for key in ("claimed_ns", "saved_ns"))
            axes.scatter(claimed, seen, s=22, marker="osD^"[place], color=SERIES[place], label=f"{verdict} ({len(mine)})")
        most = max((one["claimed_ns"] for one in verdicts), default=1) / 1e6
        for share, said, line in ((1.0, "as claimed", "-"), (0.5, "half of it", "--")):
            claimed = np.geomspace(0.05, most, 100)
            axes.plot(claimed, claimed * share, color=style.faint, linestyle=line, label=said)
        axes.set(xscale="log", xlabel="claimed, ms a step", ylabel="seen, ms a step", title="Findings that were tried")
        axes.set_yscale("symlog", linthresh=0.1)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.grid(axis="both")
        figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), help="what to try (default: all)")
    parser.add_argument("--only", action="append", metavar="WORD", help="programs whose name holds this (repeatable)")
    parser.add_argument("--rounds", default="5", help="runs of each change (default: 5)")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw all verdicts in the folder there")
    parser.add_argument("--output", type=Path, default=Path("out/confirm"), metavar="DIR", help="where recordings are kept")
    options = parser.parse_args()
    output = options.output.resolve()
    for kind in options.kind or KINDS:
        print(f"\n{kind}", flush=True)
        (output / kind).mkdir(parents=True, exist_ok=True)
        for name in _names(kind, output):
            if options.only and not any(word in name for word in options.only):
                continue
            try:
                said = KINDS[kind](name, output / kind, options.rounds)
            except recording.Missing as error:
                print(f"| {name} | not tried: {error} |", flush=True)
                continue
            print("\n".join(judge(kind, name, said)), flush=True)
            lines = kept.lines(said, kept.EXPLANATION if kind in ("comparisons", "plants", "scripts") else kept.ADVICE)
            (output / kind / f"{name.replace(' ', '-')}.jsonl").write_text(
                "".join(line + "\n" for line in lines), encoding="utf8"
            )
    every = kept.read("".join(path.read_text(encoding="utf8") for path in sorted(output.glob("*/*.jsonl"))))
    for row in kept.summary(every):
        topic = f"{row['topic']}, {row['confidence'] or 'no confidence'}"
        print(f"{row['source']}: {topic}: {row[CONFIRMED]} of {row['tried']} confirmed")
    if options.figure:
        options.figure.write_bytes(rendered(calibration(every, SLIDES), SLIDES)["svg"])
    return 0


if __name__ == "__main__":
    sys.exit(main())

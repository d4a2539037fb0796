"""Run one pass of one workload by hand, for development: tests/run_pass.py PYTHON FRAMEWORK NETWORK MODE PASS FOLDER."""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Drive one child through warm-up and a few windows."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("python", "framework", "network", "mode", "pass_name", "folder"):
        parser.add_argument(name)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--warmup", type=int, default=5)
    arguments = parser.parse_args()
    folder = Path(arguments.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    staging = Path(tempfile.mkdtemp())
    package = staging / "kernelscope"
    (package / "tracer").mkdir(parents=True)
    (package / "tracer" / "inside").symlink_to(ROOT / "tracer" / "inside")
    (package / "workloads").symlink_to(ROOT / "workloads")
    commands_read, commands_write = os.pipe()
    answers_read, answers_write = os.pipe()
    spec = {
        "framework": arguments.framework,
        "network": arguments.network,
        "mode": arguments.mode,
        "pass": arguments.pass_name,
        "folder": str(folder),
        "batch": arguments.batch,
        "device": "cpu",
        "seed": 0,
        "threads": 2,
        "batches": 8,
        "data": None,
        "warmup": arguments.warmup,
        "dropout": arguments.pass_name != "check",
        "roots": [str(package), str(ROOT)],
        "commands_fd": commands_read,
        "answers_fd": answers_write,
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    environment = dict(os.environ, PYTHONPATH=str(staging), OMP_NUM_THREADS="2", PYTHONDONTWRITEBYTECODE="1")
    with (folder / "child.log").open("w") as log:
        child = subprocess.Popen(
            [arguments.python, "-m", "kernelscope.tracer.inside.child", str(folder / "spec.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=(commands_read, answers_write),
        )
    os.close(commands_read)
    os.close(answers_write)
    commands, answers = os.fdopen(commands_write, "w"), os.fdopen(answers_read)
    plan = [{"do": "warmup"}] + [{"do": "window", "window": i, "steps": arguments.steps} for i in range(arguments.windows)]
    print(answers.readline().strip())
    for command in ([] if arguments.pass_name == "check" else plan) + [{"do": "finish"}]:
        try:
            commands.write(json.dumps(command) + "\n")
            commands.flush()
        except BrokenPipeError:
            break
        print(answers.readline().strip()[:300])
    print("exit", child.wait(), "log", folder / "child.log")


if __name__ == "__main__":
    main()

"""The agent's command line: ``python agent.pyz run WORKLOAD -f FRAMEWORK -o DIR``, ``python agent.pyz profile -- train.py``."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import zipfile
from typing import Any, Dict, NoReturn, Union

from kernelscope.tracer.inside import temporary
from kernelscope.tracer.inside.agent import check, nvml, profile
from kernelscope.tracer.inside.agent.child_process import ChildError
from kernelscope.tracer.inside.agent.session import Session
from kernelscope.tracer.inside.launching.errors import NoSuchCommand
from kernelscope.tracer.inside.launching.parsing import Parser

ABOUT = "kernelscope/tracer/inside/agent/about.json"  # in the packed file: its version, networks and frameworks
EPILOG = "exit status: 0 success, 1 a check failed, 2 wrong usage, 3 files cannot be written, 4 the framework's process failed"


class UsageError(Exception):
    """Wrong usage: one line that says what is wrong and how to correct it."""


class _Parser(Parser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write("%s: error: %s (see %s --help)\n" % (self.prog, message, self.prog))
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = _Parser(prog="agent.pyz", description="Record with the interpreter that runs this file.", epilog=EPILOG)
    top.add_argument("--version", action="store_true", help="show the version of kernelscope that made this file")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="record one workload in one framework into a run folder, to be analysed elsewhere")
    add = run.add_argument
    add("network", metavar="WORKLOAD", help="lenet, mlp, cnn or lstm")
    add("-f", "--framework", required=True, metavar="NAME", help="framework to record; this interpreter must have it")
    add("-o", "--output", required=True, metavar="DIR", help="folder for the results; must be new or empty")
    add("--mode", choices=("train", "infer"), default="train", help="what a step is (default: train)")
    add("--batch", type=_positive, default=64, metavar="N", help="samples per step (default: 64)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run (default: a GPU if NVML sees one)")
    add(
        "--collector",
        choices=("framework", "cupti"),
        default="framework",
        help="the tool that records the kernels pass (default: framework)",
    )
    add("--threads", type=_positive, metavar="N", help="processor threads (default: all allowed)")
    add("--steps", type=_positive, default=30, metavar="N", help="measured steps per repeat of a pass (default: 30)")
    add(
        "--warmup",
        type=int,
        default=10,
        metavar="N",
        help="minimum of warm-up steps; more run until their times settle (default: 10)",
    )
    add("--repeats", type=_positive, default=3, metavar="N", help="restarts of the clean pass (default: 3)")
    add("--seed", type=int, default=0, metavar="N", help="seed of weights and data (default: 0)")
    add(
        "--steady",
        action="store_true",
        help="steady heap, passive waiting and longer clean passes, to resolve smaller differences",
    )
    add("--data", metavar="DIR", help="folder with MNIST idx or CIFAR-10 binary files (default: random data)")
    add("--full-paths", action="store_true", help="keep the home folder and the user's name in the output (default: write ~)")
    add(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long a child process may take to answer (default: 300)",
    )
    described = "record a script of your own, unchanged, into a run folder, to be analysed elsewhere"
    profile.configure(commands.add_parser("profile", help=described, description=described))
    add = commands.add_parser("check", help="check what needs a GPU, into a folder to be evaluated elsewhere").add_argument
    add("-o", "--output", required=True, metavar="DIR", help="folder for the results; must be new or empty")
    add("-f", "--frameworks", metavar="A,B,...", help="check only these (default: all that this interpreter has)")
    add("--steps", type=_positive, default=20, metavar="N", help="measured steps per recording (default: 20)")
    add("--limit", type=float, default=300.0, metavar="SECONDS", help="kill a check that takes longer (default: 300)")
    return top


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("%r is not a whole number above 0" % text)
    return int(text)


def main(packed: str) -> int:
    """Run the command line of the packed file at `packed`; return the exit status."""
    arguments = parser().parse_args()
    with zipfile.ZipFile(packed) as archive:
        about = json.loads(archive.read(ABOUT).decode("utf8"))
    if arguments.version:
        print("kernelscope agent %s" % about["kernelscope"])
        return 0
    if arguments.command is None:
        return _said("no command; name run, profile or check (see %s --help)" % os.path.basename(packed), 2)
    unpacked = tempfile.mkdtemp(prefix="kernelscope-agent-" + temporary.OF_IMPORTS)
    try:
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(unpacked)  # its sources are shown line by line, which needs files
        if arguments.command == "check":
            return _check(arguments, about, unpacked, packed)
        if arguments.command == "profile":
            return _profile(arguments, about, unpacked)
        return _run(arguments, about, unpacked)
    except (UsageError, NoSuchCommand) as error:
        return _said(error, 2)
    except ChildError as error:
        return _said("%s; what was recorded is in %s" % (error, arguments.output), 4)
    except OSError as error:
        return _said("%s: %s; free some space or name another folder" % (error.filename or "files", error.strerror or error), 3)
    except KeyboardInterrupt:
        return _said("interrupted; what was recorded is in %s" % arguments.output, 130)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _said(error: Union[Exception, str], status: int) -> int:
    sys.stderr.write("kernelscope: error: %s\n" % error)
    return status


def _run(arguments: argparse.Namespace, about: Dict[str, Any], unpacked: str) -> int:
    if arguments.network not in about["networks"]:
        raise UsageError("unknown workload %r; known: %s" % (arguments.network, ", ".join(about["networks"])))
    if arguments.framework not in about["frameworks"]:
        raise UsageError("unknown framework %r; known: %s" % (arguments.framework, ", ".join(about["frameworks"])))
    if arguments.data is not None and not os.path.isdir(arguments.data):
        raise UsageError("--data %s: not a folder" % arguments.data)
    folder = arguments.output
    options = _options(arguments)
    _make_folder(folder)
    session = Session(
        arguments.framework, options, folder, about["kernelscope"], [unpacked], ["agent.pyz"] + sys.argv[1:], _progress
    )  # fmt: skip
    session.run()
    sys.stderr.write(
        "run folder: %s; analyse it with `kernelscope report %s` where kernelscope is installed\n" % (folder, folder)
    )
    return 0


def _profile(arguments: argparse.Namespace, about: Dict[str, Any], unpacked: str) -> int:
    asked = profile.command(arguments)
    if not asked:
        raise UsageError("no command; name one after --, as in python agent.pyz profile -- train.py")
    folder = arguments.output = arguments.output or profile.default_folder(asked)
    _make_folder(folder)
    return profile.run(arguments, asked, folder, unpacked, about["kernelscope"])


def _check(arguments: argparse.Namespace, about: Dict[str, Any], unpacked: str, packed: str) -> int:
    frameworks = about["frameworks"]
    if arguments.frameworks is not None:
        asked = [name.strip() for name in arguments.frameworks.split(",") if name.strip()]
        unknown = [name for name in asked if name not in frameworks]
        if unknown or not asked:
            raise UsageError("unknown framework %r; known: %s" % ((unknown or [""])[0], ", ".join(frameworks)))
        frameworks = asked
    _make_folder(arguments.output)
    folder, version = os.path.abspath(arguments.output), about["kernelscope"]
    checks = check.Checks(
        folder, os.path.abspath(packed), unpacked, frameworks, version, arguments.steps, arguments.limit, _progress
    )  # fmt: skip
    failed = checks.run()
    remark = "%s: evaluate it with `python tests/tools/gpu/check.py --from DIR` in kernelscope's sources\n"
    sys.stderr.write(remark % arguments.output)
    return 1 if failed else 0


def _make_folder(folder: str) -> None:
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise UsageError("%s: not an empty folder; name another one" % folder)
    if not os.path.isdir(folder):
        os.makedirs(folder)


def _options(arguments: argparse.Namespace) -> Dict[str, Any]:
    device = arguments.device
    if device != "cpu":
        missing = nvml.NvmlSource().unavailable
        if device == "cuda" and missing:
            raise UsageError("--device cuda: no GPU to run on (%s); use --device cpu" % missing)
        device = "cpu" if missing else "cuda"
    if arguments.collector == "cupti" and device == "cpu":
        raise UsageError("--collector cupti records only work of GPUs, and this runs on a CPU; use --collector framework")
    chosen = ("network", "mode", "batch", "seed", "steps", "warmup", "repeats", "steady", "data", "collector", "full_paths")
    options = {name: getattr(arguments, name) for name in chosen}
    threads = arguments.threads or len(os.sched_getaffinity(0))
    options.update(device=device, threads=threads, timeout_s=arguments.timeout)
    return options


def _progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()

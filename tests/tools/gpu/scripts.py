"""Profile programs that know nothing of kernelscope on a GPU, and try what is advised about them.

    python tests/tools/gpu/scripts.py FOLDER [--only NAME]... [--confirm NAME]... [--budget 120s] [-- ARGUMENTS]

FOLDER gets for each program a folder with what `profile` recorded and printed (`NAME.txt`), and of those named by --confirm what
`confirm` printed (`NAME-confirm.txt`). The programs run with the interpreter that runs this.
"""

import argparse
import os
import subprocess
import sys
import time

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
PROGRAMS = ("vision", "words", "flax_words")


def call(folder, name, words):
    """Run kernelscope in a folder with its output in NAME.txt; return its status and print how long it took."""
    started = time.perf_counter()
    with open(os.path.join(folder, name + ".txt"), "w") as file:
        command = [sys.executable, "-m", "kernelscope.cli.main", *words]
        status = subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT).returncode
    print(f"{name}: status {status} ({time.perf_counter() - started:.1f} s)", flush=True)
    return status


def main():
    """Return how many commands failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--only", action="append", choices=PROGRAMS, help="these programs (repeatable)")
    parser.add_argument("--confirm", action="append", choices=PROGRAMS, default=[], help="try what is advised (repeatable)")
    parser.add_argument("--budget", default="120s", help="of each program's trials")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:end])
    os.makedirs(given.folder, exist_ok=True)
    failures = 0
    for name in given.only or PROGRAMS:
        command = ["--", sys.executable, os.path.join(HERE, name + ".py"), *words[end + 1 :]]
        failures += call(given.folder, name, ["profile", "-o", name, *command]) != 0
        if name in given.confirm:
            failures += call(given.folder, name + "-confirm", ["confirm", "--budget", given.budget, name]) != 0
    return failures


if __name__ == "__main__":
    sys.exit(main())

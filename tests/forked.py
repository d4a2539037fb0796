"""Commands in processes of their own, forked from one that has imported what they need: that takes longer than most of them do.

They differ from what a shell starts only in that; tests of starting, and those that begin by subprocess, show the rest.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SERVER = r"""
import atexit, gc, importlib, json, os, socket, sys

for name in ("cli.profile", "cli.import_", "cli.export", "cli.report", "cli.explain", "analysis.advise.advice", "reports.ending"):
    importlib.import_module("kernelscope." + name)
from kernelscope.cli import main as command

def become(arguments, folder, variables, files):
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [command.__file__, *arguments]
    sys.stdin, sys.stdout = (open(number, mode, closefd=False) for number, mode in enumerate("rw"))
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)

def serve(link):
    while True:
        message, files, _, _ = socket.recv_fds(link, 1 << 20, 3)
        if not message:
            return 0
        child = os.fork()
        if not child:
            link.close()
            become(*json.loads(message), files)
            status = command.main()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(status)  # to take apart all that was imported takes longer than many commands do
        for file in files:
            os.close(file)
        link.send(str(child).encode())
        status = os.waitpid(child, 0)[1]
        link.send(str(os.waitstatus_to_exitcode(status)).encode())

gc.freeze()
sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
"""


@functools.cache
def _server() -> socket.socket:
    """Start the process from which commands are forked; it ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        subprocess.Popen([sys.executable, "-c", SERVER, str(its.fileno())], pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
    return ours


def run(
    *arguments: str, timeout: float = 60, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call `kernelscope` with these arguments; return what subprocess.run does that captures text and does not check."""
    command = json.dumps([arguments, str(cwd or Path.cwd()), dict(os.environ if env is None else env)]).encode()
    (out, its_out), (err, its_err), nothing = os.pipe(), os.pipe(), os.open(os.devnull, os.O_RDONLY)
    link = _server()
    socket.send_fds(link, [command], [nothing, its_out, its_err])
    for file in (nothing, its_out, its_err):
        os.close(file)
    with ThreadPoolExecutor(2) as readers:
        texts = [readers.submit(_text, file) for file in (out, err)]
        child = int(link.recv(100))
        late = not select.select([link], [], [], timeout)[0]
        if late:
            os.kill(child, signal.SIGKILL)
        status = int(link.recv(100))
        done = subprocess.CompletedProcess(arguments, status, *(text.result() for text in texts))
    if late:
        raise subprocess.TimeoutExpired(arguments, timeout, done.stdout, done.stderr)
    return done


def _text(file: int) -> str:
    with open(file, encoding="utf8") as opened:
        return opened.read()

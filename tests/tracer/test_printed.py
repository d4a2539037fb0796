"""What a script prints reaches its user as it is, without the lines that are ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.tracer.inside.profiling import muted, printed

_LINE = b"onednn_verbose,v1,1795305997780.07,primitive,exec,cpu,relu,a,b,0.5\n"
_MKL = b"MKL_VERBOSE SGEMM(N,T,4,128,1) 9.59us CNR:OFF\n"


def test_the_scripts_bytes_come_out_as_they_went_in() -> None:
    own = [b"progress 50%\r", b"a line\n", "é".encode(), b"no newline"]
    mixed = own[0] + _LINE + own[1] + b"@kernelscope 12 B layer x\n" + own[2] + _MKL + own[3]
    lines, forwarded, waiting = printed.parted(mixed)
    assert forwarded == b"".join(own)
    assert lines == _LINE + b"@kernelscope 12 B layer x\n" + _MKL
    assert waiting == b""


def test_a_line_that_is_not_whole_waits() -> None:
    assert printed.parted(b"mine" + _LINE[:-9]) == (b"", b"mine", _LINE[:-9])


def test_lines_that_the_script_asked_for_are_its_own_too() -> None:
    """And those of no other library."""
    lines, forwarded, _ = printed.parted(b"x" + _LINE + _MKL + b"@kernelscope 12 E y\n", [printed.ONEDNN])
    assert forwarded == b"x" + _LINE
    assert lines == _LINE + _MKL + b"@kernelscope 12 E y\n"


@pytest.mark.parametrize(
    "text",
    [
        b"see onednn_verbose,v1\n",
        b"set MKL_VERBOSE =1\n",
        b"MKL_VERBOSE mine\n",
        b"x MKL_VERBOSE f(1)\n",
        b"\rdnnl_verbose,exec\n",
    ],
)
def test_behind_the_scripts_own_text_a_line_is_a_librarys_only_where_all_of_it_is(text: bytes) -> None:
    assert printed.parted(_LINE + text) == (_LINE, text, b"")


def test_a_line_of_onednn_without_a_time_is_the_scripts_own_where_ours_have_one() -> None:
    """As what it hands on of a process that it started."""
    other, head = _LINE.replace(b"1795305997780.07,", b""), b"onednn_verbose,v1,info,oneDNN v3.12.0\n"
    assert printed.parted(head + other + _LINE + b"of it: " + other + _MKL, [printed.TIMED]) == (
        head + _LINE + _MKL, other + b"of it: " + other, b"",
    )  # fmt: skip
    assert printed.parted(other) == (other, b"", b"")


def test_one_line_of_a_library_is_dropped_and_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.write(2, b"before\n")
    with muted.without(re.compile(rb"ERROR: of a library|INFO"), str(tmp_path)):
        os.write(2, b"mine\nERROR: of a library (1 != 2)\nERROR: mine\nno newline")
    os.write(2, b"; after\n")
    assert capfd.readouterr().err == "before\nmine\nERROR: mine\nno newline; after\n"
    assert not list(tmp_path.iterdir())


def test_nothing_is_dropped_where_there_is_no_file_for_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with muted.without(re.compile(b"ERROR"), str(tmp_path / "gone")):
        os.write(2, b"ERROR\n")
    assert capfd.readouterr().err == "ERROR\n"


def _said(tmp_path: Path, program: str) -> str:
    """Return what a program prints whose descriptor 1 is pointed at a file meanwhile, with what is handed on at its end."""
    folder = tmp_path / "kernels" / "1"
    folder.mkdir(parents=True)
    lines = [
        "import os, subprocess, sys",
        "from kernelscope.tracer.inside.launching import command",
        "from kernelscope.tracer.inside.profiling.printed import Printed",
        f"printed = Printed({str(folder)!r})",
        *program.splitlines(),
        f"command.forward_rest({str(tmp_path)!r})",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert {path.name for path in folder.iterdir()} <= {"stdout.raw"}
    return done.stdout


def test_a_copy_of_stdout_that_was_made_meanwhile_leads_where_it_led(tmp_path: Path) -> None:
    """As helpers do that hush what is printed: they point descriptor 1 elsewhere, and back when the pass has ended."""
    program = f"""
saved = os.dup(1)
os.dup2(os.open({str(tmp_path / "hushed")!r}, os.O_WRONLY | os.O_CREAT), 1)
printed.close()
os.write(1, b"hushed\\n")
os.dup2(saved, 1)
os.write(1, b"heard\\n")"""
    assert _said(tmp_path, program) == "heard\n"
    assert (tmp_path / "hushed").read_text() == "hushed\n"


@pytest.mark.parametrize("start", ["subprocess.Popen", "subprocess.Popen(close_fds=False)", "os.posix_spawn"])
def test_processes_print_where_they_would(tmp_path: Path, start: str) -> None:
    """At once, behind what was printed before, and after the pass has ended."""
    code = "import os; os.write(1, b'at once\\n'); input(); os.write(1, b'late\\n')"
    words = f"[sys.executable, '-c', {code!r}]"
    begin = {
        "os.posix_spawn": f"os.posix_spawn(sys.executable, {words}, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, there, 0)])",
        "subprocess.Popen": f"subprocess.Popen({words}, stdin=there).pid",
        "subprocess.Popen(close_fds=False)": f"subprocess.Popen({words}, stdin=there, close_fds=False).pid",
    }[start]
    program = f"""
there, here = os.pipe()
os.write(1, b"early\\n")
process = {begin}
os.write(1, b"meanwhile\\n")
printed.close()
os.write(here, b"go on\\n")
os.close(here)
os.waitpid(process, 0)
os.write(1, b"last\\n")"""
    lines = _said(tmp_path, program).splitlines()
    assert lines[0] == "early"
    assert lines[-2:] == ["late", "last"]
    assert sorted(lines) == sorted(["early", "at once", "meanwhile", "late", "last"])


def test_what_a_process_prints_that_c_code_started_is_handed_on(tmp_path: Path) -> None:
    program = """
printed._starting.undo()
child = subprocess.Popen([sys.executable, "-c", "input(); print('late')"], stdin=subprocess.PIPE)
os.write(1, b"early\\n")
printed.close()
child.communicate(b"go on\\n")"""
    assert _said(tmp_path, program) == "early\nlate\n"


@pytest.mark.parametrize(
    "move",
    [
        "os.dup2(there, 1)",
        "os.dup2(fd=there, fd2=1)",
        "os.close(1); os.dup(there)",
        "os.closerange(0, 2); os.dup(there); os.dup(there)",
    ],
)
def test_the_script_is_told_before_it_moves_its_stdout(tmp_path: Path, move: str) -> None:
    """So that nothing else is in its file, and all that it printed before is where it was to be."""
    program = f"""
printed.close()
def moving():
    os.write(1, {_MKL!r})
    printed.close()
printed = Printed(printed.folder, moving)
before = os.dup2, os.close
os.dup2(1, 9), os.close(9)
os.write(1, b"before\\n")
there = os.open({str(tmp_path / "own")!r}, os.O_WRONLY | os.O_CREAT)
{move}
os.write(1, b"in its file\\n")
assert os.dup2 is not before[0] and os.close is not before[1]"""
    assert _said(tmp_path, program) == "before\n"
    assert (tmp_path / "own").read_bytes() == b"in its file\n"


@pytest.mark.parametrize(("mode", "text"), [(2, "no newline"), (1, "a line\\n")], ids=["unbuffered", "by lines"])
def test_what_c_prints_is_buffered_as_before(tmp_path: Path, mode: int, text: str) -> None:
    """Unbuffered, as python -u lets it be, or line by line: so it comes before what Python prints next."""
    program = f"""
import ctypes
libc = ctypes.CDLL(None)
printed.close()
libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, {mode}, 0)
Printed(printed.folder).close()
libc.printf(b"{text}")
os.write(1, b"; python\\n")"""
    assert _said(tmp_path, program) == text.replace("\\n", "\n") + "; python\n"

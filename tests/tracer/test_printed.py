"""What a script prints reaches its user as it is, without the lines that are ours."""

from __future__ import annotations

from kernelscope.tracer.inside.profiling import printed

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
    lines, forwarded, _ = printed.parted(b"x" + _LINE + b"@kernelscope 12 E y\n", echo=True)
    assert forwarded == b"x" + _LINE
    assert lines == _LINE + b"@kernelscope 12 E y\n"

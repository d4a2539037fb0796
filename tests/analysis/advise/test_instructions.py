"""MKL's own line tells for which instructions its code is."""

import pytest

import kernelscope as ks

LOG = """\
MKL_VERBOSE Intel(R) MKL 2018.0 Update 9 Product build 20180101 for Intel(R) 64 architecture {} enabled processors, Lnx lp64
MKL_VERBOSE SGEMM(N,N,1000,1000,1000,0x1,0x2,1000,0x3,1000,0x4,0x5,1000) 40.00ms CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:4
"""
OLD = "Intel(R) Supplemental Streaming SIMD Extensions 3 (Intel(R) SSSE3)"
NEW = "Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2)"


@pytest.mark.parametrize(("name", "saved"), [(OLD, [30_000_000]), (NEW, []), ("", [])])
def test_old_instructions_are_told(tmp_path, name, saved):
    """Three quarters of 40 ms."""
    path = tmp_path / "mkl.log"
    path.write_text(LOG.format(name))
    found = [one for one in ks.advise(path)["advice"] if one["topic"] == "instructions"]
    assert [one["saves_ns"] for one in found] == saved
    assert all(one["title"] == "MKL runs its code for SSSE3, without AVX" for one in found)

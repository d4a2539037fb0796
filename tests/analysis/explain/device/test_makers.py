"""Kernels of AMD's against NVIDIA's devices, which names tell where tables call every device CUDA."""

import kernelscope as ks
from kernelscope.reports import explanation
from tests.analysis.formats.torch_table.made import NEW, printed, row

CK = "void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<int> >"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128> >"
AITER = "aiter::fmha_fwd_hd64_causal"


def table(path, kernel, ms):
    rows = [row("flash_attn::_flash_attn_forward", "0.200ms", "0.300ms", "0.000us", "4")]
    rows.append(row(kernel, "0.000us", "0.000us", f"{ms:.3f}ms", "4"))
    path.write_text(printed(NEW, rows, ["Self CPU time total: 0.200ms", f"Self CUDA time total: {ms:.3f}ms"]))
    return path


def test_other_hardware_is_said_first_and_no_kernel_of_the_other_make_is_advised(tmp_path):
    result = ks.explain(table(tmp_path / "a.txt", CK, 9.0), table(tmp_path / "b.txt", FLASH, 4.0))
    said = "other hardware: A ran on a device of AMD, B on one of NVIDIA, by the names of their kernels"
    assert explanation.warnings(result)[0] == said
    (first,) = result["findings"]
    assert first["title"].startswith("other hardware: attention kernels take 9.00 ms in A, 4.00 ms in B")
    assert first["confidence"] != "high"
    assert "flash" not in first["remedy"]


def test_two_libraries_of_one_maker_are_compared(tmp_path):
    result = ks.explain(table(tmp_path / "a.txt", CK, 9.0), table(tmp_path / "b.txt", AITER, 4.0))
    assert result["devices"] is None
    (first,) = result["findings"]
    assert first["cause"] == "attention algorithm"
    assert "aiter" in first["remedy"]

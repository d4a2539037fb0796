"""What is derived of kernels, beside what an H200's own counters said (tests/data/gpu/h200/counters)."""

import gzip
import importlib.util
import shutil
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("counters", Path(__file__).with_name("counters.py"))
counters = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(counters)
DATA = Path(__file__).parents[2] / "data" / "gpu" / "h200" / "counters"


def test_occupancy_and_tensor_cores_are_what_the_gpu_counted(tmp_path):
    for path in DATA.iterdir():
        shutil.copy(path, tmp_path)
    for path in tmp_path.glob("*.csv.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
    # the first ended before the optimizer; of the second the kernels that multiply were counted, three with other algorithms
    assert counters.judge(tmp_path) == {"gpt-bfloat16": (140, 140, []), "gpt-tf32": (13, 16, [])}


def test_float32_attention_is_three_products_in_tf32(tmp_path):
    (tmp_path / "table.csv").write_bytes(gzip.decompress((DATA / "gpt-tf32.ncu.csv.gz").read_bytes()))
    rows, _ = counters.counted(tmp_path / "table.csv")
    attention = next(row for row in rows if row["Kernel Name"].startswith("fmha_cutlassF_f32"))
    batch, heads, length, width, tile = 4, 16, 1024, 64, 64  # tests/tools/gpu/counters.py
    computed = length * (length + tile) / 2  # of the causal square, whole tiles
    products = 2 * 2 * batch * heads * computed * width
    instruction = 2 * 16 * 8 * 8  # operations of one mma.m16n8k8, as TF32 has it
    assert int(attention[counters.PIPE + "_op_hmma.sum"].replace(",", "")) * instruction == pytest.approx(3 * products, rel=1e-6)

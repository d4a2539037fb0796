"""What XProf 2.24.2's kernel statistics say of a capture; see docs/validation/peers.md."""

from kernelscope.analysis.formats.xplane import trace as xplane
from tests.places import corpus

# name's beginning -> nanoseconds, calls
XPROF = {
    "Cijk_Ailk_Bljk_BBS_BH_MT256x112x64_MI16x16x16x1_SN_1LDSB0_APM1": (414_560, 3),
    "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32_MI16x16x16x1_SN_1LDSB1_APM1": (468_880, 12),
    "__amd_rocclr_copyBuffer.kd": (82_560, 18),
    "gemm_fusion_dot_general_1.kd": (359_600, 3),
    "input_reduce_fusion.kd": (63_721, 6),
    "loop_convert_fusion.kd": (1_554_841, 45),
    "loop_reduce_fusion.kd": (205_040, 3),
    "loop_sqrt_fusion.kd": (14_040, 3),
    "wrapped_convert.kd": (5_800, 3),
    "wrapped_transpose.kd": (29_520, 3),
}


def test_kernels_are_those_of_xprof():
    kernels = xplane.read(corpus("tf/AMD-AGI__TraceLens__mi300_jax08_attention.xplane.pb")).kernels
    name = kernels["name"].astype("string")
    found = {start: kernels[name.str.startswith(start).to_numpy(bool)]["duration_ns"] for start in XPROF}
    assert {start: (int(times.sum()), len(times)) for start, times in found.items()} == XPROF
    products = kernels[name.str.startswith("Cijk_Ailk_Bljk_BBS_BH_MT256x256x64").to_numpy(bool)].groupby("name", observed=True)
    assert sorted(products["duration_ns"].sum()) == [227_920, 419_080]
    assert (len(kernels), int(kernels["duration_ns"].sum())) == (105, 3_845_562)

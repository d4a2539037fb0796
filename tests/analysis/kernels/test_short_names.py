"""Short names of kernels, of full names as captures have them."""

import pytest

from kernelscope.analysis.kernels.short_names import short

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, float)"
)
PRODUCT = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, float, false>(int)"
GENERATED = "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8"


@pytest.mark.parametrize(
    ("name", "shortened"),
    [
        (ELEMENTWISE, "vectorized_elementwise_kernel (MulFunctor)"),
        (PRODUCT, "internal::gemvx::kernel"),
        (f"void cutlass::Kernel2<{GENERATED}>(Params)", f"cutlass::Kernel2 ({GENERATED})"),
        ("(anonymous namespace)::softmax_warp_forward<float, float, 7>(float*)", "softmax_warp_forward"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x96x32_MI16x16x16x1_SN_K1", "Cijk_Ailk_Bljk_BBS_BH_MT128x96x32"),
    ],
)
def test_short_names(name, shortened):
    assert short(name) == shortened

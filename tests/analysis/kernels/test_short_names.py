"""Short names of kernels, of full names as captures have them."""

import pytest

from kernelscope.analysis.kernels.short_names import apart, short

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, float)"
)
PRODUCT = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, float, false>(int)"
XMMA = (
    "void xmma_cudnn::gemm::kernel<xmma_cudnn::implicit_gemm::wgrad_indexed::Kernel_traits<xmma_cudnn::Ampere_hmma_fp32_traits, "
    "xmma_cudnn::Cta_tile<xmma_cudnn::Ampere, (int)128, (int)64, (int)32, (int)4, (int)1, (int)1, (int)1> >(T1::Params)"
)
GENERATED = "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align8"


@pytest.mark.parametrize(
    ("name", "shortened"),
    [
        (ELEMENTWISE, "vectorized_elementwise_kernel (MulFunctor)"),
        (PRODUCT, "internal::gemvx::kernel"),
        (f"void cutlass::Kernel2<{GENERATED}>(Params)", f"cutlass::Kernel2 ({GENERATED})"),
        ("(anonymous namespace)::softmax_warp_forward<float, float, 7>(float*)", "softmax_warp_forward"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_split_k_kernel",
            "sm80_xmma_gemm_tn_n 64x256x8 split-k",
        ),
        (
            "sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_g1_tensor16x8x16_kernel_cudnn",
            "sm80_xmma_wgrad_implicit_gemm_indexed 128x128x32",
        ),
        (XMMA, "xmma wgrad 128x64x32 (hmma_fp32)"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x96x32_MI16x16x16x1_SN_K1", "Cijk_Ailk_Bljk_BBS_BH_MT128x96x32"),
    ],
)
def test_short_names(name, shortened):
    assert short(name) == shortened


GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize{}_ffma_aligna{}_alignc4_execute_kernel"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([GEMM.format("2x2x1", 4), GEMM.format("4x1x1", 4), GEMM.format("4x1x1", 1)],
         ["warpsize2x2x1 aligna4", "warpsize4x1x1 aligna4", "warpsize4x1x1 aligna1"]),
        (["void MapPlanKernel<saveto, int>(int)", "void MapPlanKernel<plusto, int>(int)"], ["saveto", "plusto"]),
        # types tell little, but where they are all that differs
        (["void fill<int, char>(long)", "void fill<long, int>(long)"], ["char", "long"]),
        # words that all have in another order
        (["k<a, b>(int)", "k<b, a>(int)"], ["(variant 1)", "(variant 2)"]),
    ],
)  # fmt: skip
def test_kernels_of_one_short_name_are_told_apart(names, told):
    assert apart([*names, "other_kernel(int)"]) == dict(zip(names, told, strict=True))

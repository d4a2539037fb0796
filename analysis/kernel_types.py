"""What a kernel's name tells of its data: element type, transposed operands, tensor cores, tile. Names are spelled ones.

Types are those of the operands: a product of bf16 matrices that sums up in f32 is "bf16", one of f32 matrices that multiplies
in TF32 is "tf32". Tables are read from top to bottom, the first pattern that is found counts.
"""

from __future__ import annotations

import re

# pattern, type, a name that it fits
DTYPES = (
    (r"_Mx(?:E2m1|e2m1)\w*|nvfp4|mxfp4|fp4_|_f4_|e2m1", "f4", "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_TN_sm100f"),
    (r"(?i)e5m2", "f8e5m2", "cutlass3x_sm90_tensorop_s64x128x32gemm_e5m2_e4m3_f32_f32_f32_128x128x128"),
    (r"(?i)e4m3|_fp8_|Fp8|^nvjet_(?:sm\d+_)?q", "f8e4m3", "nvjet_qqtst_128x256_128x6_2x1_v_bz_coopA_TNT"),
    (r"Cijk_\w+?_(?:B8|F8)\w*_", "f8e4m3", "Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x128"),
    (r"tf32", "tf32", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32"),
    # products of f32 on tensor cores multiply in TF32
    (r"(?:tensorop_|_)s1688gemm_\d|^nvjet_(?:sm\d+_)?s", "tf32", "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"),
    (r"bf16|bfloat16|BFloat16|Bfloat16|^nvjet_(?:sm\d+_)?t", "bf16", "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT"),
    (r"Cijk_[A-Za-z]+_[A-Za-z]+_B[BS]", "bf16", "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"Cijk_[A-Za-z]+_[A-Za-z]+_H", "f16", "Cijk_Ailk_Bljk_HHS_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"Cijk_[A-Za-z]+_[A-Za-z]+_S", "f32", "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_[A-Za-z]+_[A-Za-z]+_D", "f64", "Cijk_Ailk_Bljk_DB_MT64x64x8_SE_K1"),
    (r"Cijk_[A-Za-z]+_[A-Za-z]+_C", "c64", "Cijk_Ailk_Bljk_CB_MT64x64x8_SE_K1"),
    (r"Cijk_[A-Za-z]+_[A-Za-z]+_(?:I8|4xi8)", "s8", "Cijk_Ailk_Bljk_I8II_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"fp16|f16|_half\b|__half|c10::Half|Eigen::half|half_t|\bHalf\b|_Float16|[^a-z]h(?:884|1688|16816|gemm)|hcudnn|^nvjet_(?:sm\d+_)?h", "f16", "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn"),
    (r"DT_HALF", "f16", "Relu_GPU_DT_HALF_DT_HALF_kernel"),
    # Composable Kernel holds bf16 in unsigned short
    (r"\bck::.*<unsigned short", "bf16", "ck::kernel_grouped_conv_fwd<GridwiseGemm<unsigned short, unsigned short, float>>"),
    (r"(?:^|_)z?d(?:884)?gemm|f64|\bdouble\b|DT_DOUBLE|(?<=Sum_)f64|^nvjet_(?:sm\d+_)?d", "f64", "volta_dgemm_64x64_nn"),
    (r"i8816|i16832|i8x|int8|_s8_|imma|(?<=[^a-z])igemm_int8|signed char", "s8", "turing_int8_i8816gemm_int8_128x128_ldg16_relu_nt"),
    (r"(?:^|_|:)(?:volta|maxwell|ampere|pascal)?_?g?c(?:gc)?gemm|Cgemm|float2|c10::complex<float>", "c64", "volta_gcgemm_32x32_nt"),
    (r"f32|fp32|\bfloat\b|scudnn|sgemm|DT_FLOAT|_float(?=\b|_)|CUDAFunctor_add<float", "f32", "ampere_sgemm_128x64_tn"),
    (r"DT_INT64|\b(?:long|__int64|int64_t)\b(?=[ ,>)])", "s64", "at::native::vectorized_elementwise_kernel<2, at::native::CUDAFunctor_add<long>, std::array<char *, 3>>"),
    (r"FillFunctor<int>|Functor\w*<int\b|DT_INT32", "s32", "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >"),
    (r"Functor\w*<bool\b|DT_BOOL", "bool", "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<bool>, at::detail::Array<char*, 1> >"),
)  # fmt: skip

# pattern and the flags, where a group of the pattern is not the flags themselves; and a name that it fits
TRANSPOSITIONS = (
    (r"^nvjet_\w*_([NT]{2})[NT]$", None, "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"),
    (r"Cijk_Ailk_Bljk", "NN", "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_Ailk_Bjlk", "NT", "Cijk_Ailk_Bjlk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_Alik_Bljk", "TN", "Cijk_Alik_Bljk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_Alik_Bjlk", "TT", "Cijk_Alik_Bjlk_SB_MT64x64x8_SE_K1"),
    (r"gemv\w*?T(?:_|$|<)", "T", "gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"),
    (r"gemv\dN", "N", "gemv2N_kernel<int, int, float, float, float, float, 128, 8, 4, 4, 1, false>"),
    (r"gemmSN_([NT]{2})_", None, "gemmSN_NN_kernel<float, 128, 2, 4, 8, 4, 4>"),
    (r"^bmm_\w*_([NT]{2})(?=_)", None, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_rM_TN_transOut_sm100f"),
    (r"_([ntc]{2})(?=_|$|[^A-Za-z0-9])", None, "ampere_sgemm_128x64_tn"),
)  # fmt: skip

# names of kernels that multiply on tensor cores (matrix cores of AMD), and of kernels that do not
TENSOR_CORES = (
    (r"ffma|_simt_|simt_[sdhc]gemm", False, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4"),
    (r"tensorop|tensor\d+x\d+x\d+|[hidbq]mma(?![a-z])|hmma|wgmma|HMMA|warpgroup|utcmma|_\dcta_", True, "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"),
    (r"(?:^|[^a-z0-9])(?:f16|bf16|fp16|int8)?_?[hsidc](?:884|1688|16816|161616|8816|16832|16864|81616)", True, "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn"),
    (r"^nvjet_|cutlass3x_sm(?:9|1\d)|xmma_\w*(?:f16|bf16|tf32|e4m3|e5m2|i8)", True, "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"),
    (r"flash_(?:fwd|bwd)_(?:kernel|splitkv_kernel|dq_dk_dv)|FlashAttn(?:Fwd|Bwd)Sm|fmhaSm|sdpa_sm\d+_flash|fmha_v2|fmha_cutlass\w_(?:b?f16)\w*_sm(?:7|8|9)", True, "fmha_cutlassF_bf16_aligned_64x128_rf_sm80"),
    (r"Cijk_.*_MI\d+x\d+", True, "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"Cijk_.*_MT\d+x\d+", False, "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    (r"igemm_\w+_gtcx|xdlops|_xdl(?:_|\b)|\bck(?:_tile)?::.*(?:Fmha|wmma)|mfma", True, "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32"),
    (r"igemm_\w+_gtc_|_dlops|_dl_", False, "igemm_fwd_gtc_gfx1030_nchwc_kcyxc_fp16x4_bt16x128x32"),
    (r"^bmm_\w+_(?:cga|sm1\d\d)", True, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_rM_TN_sm100f"),
    # classical names: one letter for the type, no shape of an instruction
    (r"(?:^|_)(?:volta|turing|ampere|maxwell|pascal|kepler)_(?:fp16_)?g?[shdcz](?:gemm|cudnn)", False, "volta_scudnn_128x32_relu_interior_nn_v1"),
    (r"^[sdhcz]gemm_|_sm\d\d_ldg_|sgemm_largek|fermiPlus|magma_\w*gemm|gemm_kernel1x1_core|gemmSN_|gemmk1|gemv|\bdot_kernel<", False, "sgemm_sm35_ldg_nn_64x16x64x16x16"),
    (r"(?:im|ex)plicit_convolve_sgemm|winograd_nonfused|generateWinograd|[dw]grad\w*_engine|[dw]grad2d_|fft[12]d_|flip_filter|compute_gemm_pointers|compute\w*OffsetsKernel", False, "implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, true, true>"),
)  # fmt: skip

_TILE = re.compile(r"(?:_|tilesize|MT|_bt|_t)(\d{1,4}x\d{1,4}(?:x\d{1,4})?)(?=_|u|$|[^0-9A-Za-z])")

# kinds whose computation is no product of matrices: no library has them on tensor cores
_NO_PRODUCT = frozenset(
    ("pooling", "activation", "elementwise", "layout", "cast", "copy", "random", "embedding", "optimizer", "communication")
)

_DTYPES = tuple((re.compile(pattern), dtype) for pattern, dtype, _ in DTYPES)
_TRANSPOSITIONS = tuple((re.compile(pattern), flags) for pattern, flags, _ in TRANSPOSITIONS)
_TENSOR_CORES = tuple((re.compile(pattern), used) for pattern, used, _ in TENSOR_CORES)


def dtype(spelled: str) -> str | None:
    """Return the operands' element type, such as f32, f16, bf16, tf32, f8e4m3 or s8; None when the name has none."""
    return next((dtype for pattern, dtype in _DTYPES if pattern.search(spelled)), None)


def transpose(spelled: str) -> str | None:
    """Return the transposition flags of a product's operands, such as NT; None when the name has none."""
    for pattern, flags in _TRANSPOSITIONS:
        if found := pattern.search(spelled):
            return flags or found[1].upper()
    return None


def tensor_core(spelled: str, kind: str | None) -> bool | None:
    """Return whether a kernel multiplies on tensor cores, as far as its name tells. kind: what the name says it is."""
    if kind in _NO_PRODUCT:
        return False
    return next((used for pattern, used in _TENSOR_CORES if pattern.search(spelled)), None)


def tile(spelled: str) -> str | None:
    """Return the part of the result that a block computes, such as 128x64, or 128x64x32 with the inner dimension."""
    found = _TILE.search(spelled)
    return found[1] if found else None

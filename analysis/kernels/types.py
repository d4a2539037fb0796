"""What a kernel's name says about its data: element type, transposed operands, tensor cores, tile. It needs spelled names.

Types are those of the operands: a product of bf16 matrices that accumulates in f32 is "bf16", one of f32 matrices that
multiplies in TF32 is "tf32". Tables are read from top to bottom; the first match counts.
"""

from __future__ import annotations

import re

from kernelscope.analysis.kernels.pattern_words import Patterns

# Codes in the names of generated kernels: pattern, type, a name that it matches
CODES = (
    (r"(?i)e2m1|mxfp4|nvfp4", "f4e2m1", "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_rM_TN_transOut_sm100f"),
    (r"(?i)e5m2", "f8e5m2", "cutlass3x_sm90_tensorop_s64x128x32gemm_e5m2_e4m3_f32_f32_f32_128x128x128"),
    (r"(?i)e4m3|fp8(?!kv)|^nvjet_(?:sm\d+_)?q", "f8e4m3", "nvjet_qqtst_128x256_128x6_2x1_v_bz_coopA_TNT"),
    (r"tf32", "tf32", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32"),
    # f32 operands on tensor cores are multiplied in TF32; other types are named
    (r"_s1688gemm_(?:\d|\.\.\.|$)|^nvjet_(?:sm\d+_)?s(?!m\d)", "tf32", "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"),
    (r"(?i)bf16|bfloat16|^nvjet_(?:sm\d+_)?t", "bf16", "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT"),
    # Tensile: layouts of C, A and B, then the types of A and B and of the accumulator
    (r"^\w*Cijk_\w{4}_\w{4}_(?:F8|B8)", "f8e4m3", "Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x128"),
    (r"^\w*Cijk_\w{4}_\w{4}_B[BS]", "bf16", "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"^\w*Cijk_\w{4}_\w{4}_H", "f16", "Cijk_Ailk_Bljk_HHS_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"^\w*Cijk_\w{4}_\w{4}_S_MX_B|^\w*Cijk_\w{4}_\w{4}_SX", "tf32", "Cijk_Ailk_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT128x128x32"),
    (r"^\w*Cijk_\w{4}_\w{4}_S", "f32", "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    (r"^\w*Cijk_\w{4}_\w{4}_D", "f64", "Cijk_Ailk_Bljk_DB_MT64x64x8_SE_K1"),
    (r"^\w*Cijk_\w{4}_\w{4}_C", "c64", "Cijk_Ailk_Bljk_CB_MT64x64x8_SE_K1"),
    (r"^\w*Cijk_\w{4}_\w{4}_Z", "c128", "Cijk_Ailk_Bljk_ZB_MT64x64x8_SE_K1"),
    (r"^\w*Cijk_\w{4}_\w{4}_(?:I8|4xi8)", "s8", "Cijk_Ailk_Bljk_I8II_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"fp16|(?<![a-z])f16|(?<![a-z])h(?:884|1688|16816|gemm|scal|cudnn)|^nvjet_(?:sm\d+_)?h|DT_HALF|Sum_half",
     "f16", "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn"),
    (r"(?<![a-z])d(?:884)?(?:gemm|scal|trsm)|(?<![a-z])f64|DT_DOUBLE|_double$|^nvjet_(?:sm\d+_)?d",
     "f64", "volta_dgemm_64x64_nn"),
    (r"i8816|i16832|(?<![a-z])int8|_s8_|_i8_|imma", "s8", "turing_int8_i8816gemm_int8_128x128_ldg16_relu_nt"),
    (r"(?<![a-z])g?c(?:gemm|trsm)|Cgemm", "c64", "volta_gcgemm_32x32_nt"),
    (r"(?<![a-z])z(?:gemm|trsm)", "c128", "volta_zgemm_32x32_nt"),
    (r"(?<![a-z])f32|fp32|s(?:gemm(?!Ex)|cudnn)|DT_FLOAT|_float$", "f32", "ampere_sgemm_128x64_tn"),
    (r"DT_INT64", "s64", "Mul_GPU_DT_INT64_DT_INT64_kernel"),
    (r"DT_INT32", "s32", "Mul_GPU_DT_INT32_DT_INT32_kernel"),
    (r"DT_BOOL", "bool", "LogicalNot_GPU_DT_BOOL_DT_BOOL_kernel"),
)  # fmt: skip

# C++ types of template parameters. The first floating-point type counts: integers may be sizes or indices
FLOATING = {
    "float": "f32", "double": "f64", "half": "f16", "__half": "f16", "__half2": "f16", "half2": "f16", "half_t": "f16",
    "Half": "f16", "_Float16": "f16", "BFloat16": "bf16", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16", "hip_bfloat16": "bf16", "bfloat16_t": "bf16", "bfloat16": "bf16", "bf16_t": "bf16",
    "float2": "c64", "cuComplex": "c64", "double2": "c128", "cuDoubleComplex": "c128", "tfloat32_t": "tf32",
    "Float8_e4m3fn": "f8e4m3", "Float8_e4m3fnuz": "f8e4m3", "Float8_e5m2": "f8e5m2", "float_e4m3_t": "f8e4m3",
    "float_e5m2_t": "f8e5m2", "__nv_fp8_e4m3": "f8e4m3", "__nv_fp8_e5m2": "f8e5m2",
}  # fmt: skip
INTEGERS = {
    "long": "s64", "__int64": "s64", "int64_t": "s64", "long long": "s64", "int": "s32", "int32_t": "s32", "short": "s16",
    "signed char": "s8", "int8_t": "s8", "char": "s8", "unsigned char": "u8", "uint8_t": "u8", "bool": "bool",
}  # fmt: skip

# pattern and flags, None if they are the pattern's group; and a name that it matches
TRANSPOSITIONS = (
    (r"^nvjet_\w*_([NT]{2})[NT]$", None, "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"),
    (r"Cijk_Ailk_Bljk", "NN", "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_Ailk_Bjlk", "NT", "Cijk_Ailk_Bjlk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_Alik_Bljk", "TN", "Cijk_Alik_Bljk_SB_MT64x64x8_SE_K1"),
    (r"Cijk_Alik_Bjlk", "TT", "Cijk_Alik_Bjlk_SB_MT64x64x8_SE_K1"),
    (r"gemv\d?([NT])_", None, "gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"),
    (r"gemmSN_([NT]{2})_", None, "gemmSN_NN_kernel<float, 128, 2, 4, 8, 4, 4>"),
    (r"^bmm_\w*_([NT]{2})(?=_)", None, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_rM_TN_transOut_sm100f"),
    (r"_([ntc]{2})(?=_|$|[^A-Za-z0-9])", None, "ampere_sgemm_128x64_tn"),
)  # fmt: skip

# patterns of kernels that multiply on tensor cores (matrix cores of AMD) or do not; and a name that it matches
TENSOR_CORES = (
    (r"ffma|_simt_", False, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4"),
    (r"[Ss]plit_?[Kk]_?[Rr]educe|ReduceSplitK", False, "splitKreduce_kernel<float, float, float, float, true, false, false>"),
    (r"tensorop|tensor\d+x\d+x\d+|(?<![a-z])[hidbqw]mma(?![a-z])|HMMA|wgmma|warpgroup|utcmma",
     True, "cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1"),
    (r"(?<![a-z0-9])(?:b?f16|[bf]p?16|int8)?_?[hsidc](?:884|1688|16816|161616|8816|16832|16864)",
     True, "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn"),
    (r"^nvjet_|cutlass3x_sm(?:9|1\d)|xmma_\w*(?:f16|bf16|tf32|e4m3|e5m2|i8)", True, "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"),
    (r"flash_(?:fwd|bwd)_(?:kernel|splitkv_kernel|dq_dk_dv)|FlashAttn(?:Fwd|Bwd)Sm|^fmhaSm|sdpa_sm\d+_flash|^fmha_v2"
     r"|fmha_cutlass\w_b?f16\w*_sm(?:7|8|9)",
     True, "fmha_cutlassF_bf16_aligned_64x128_rf_sm80"),
    # float32 by three products in TF32: hardware counters show that many tensor core instructions (docs/gpu)
    (r"fmha_cutlass\w_f32\w*_sm(?:8|9)", True, "fmha_cutlassB_f32_aligned_64x64_k64_sm80"),
    (r"Cijk_.*_MI\d+x\d+", True, "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN"),
    (r"Cijk_.*_MT\d+x\d+", False, "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    (r"igemm_\w+_gtcx|xdlops|_xdl(?:_|\b)|\bck(?:_tile)?::.*(?:Fmha|wmma)|mfma",
     True, "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32"),
    (r"igemm_\w+_gtc_|_dlops|_dl_", False, "igemm_fwd_gtc_gfx1030_nchwc_kcyxc_fp16x4_bt16x128x32"),
    (r"^bmm_\w+_(?:cga|sm1\d\d)",
     True, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_rM_TN_sm100f"),
    # classic names: one letter for the type and no instruction shape
    (r"(?:volta|turing|ampere|maxwell|pascal|kepler)_(?:fp16_)?g?[shdcz](?:gemm|cudnn)",
     False, "volta_scudnn_128x32_relu_interior_nn_v1"),
    (r"^g?[sdhcz]gemm_(?:kernel|batched|strided)|_sm\d\d_ldg_|sgemm_largek|fermiPlus|magma_\w*gemm|gemm_kernel1x1_core|gemmSN_|gemmk1|gemv"
     r"|cublasDotParams",
     False, "sgemm_sm35_ldg_nn_64x16x64x16x16"),
    (r"(?:im|ex)plicit_convolve_sgemm|winograd_nonfused|generateWinograd|[dw]grad\w*_engine|[dw]grad2d_|conv2d_grouped_direct|fft[12]d_|flip_filter"
     r"|compute_gemm_pointers|compute\w*OffsetsKernel",
     False, "implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, true, true>"),
)  # fmt: skip

# Kinds that multiply no matrices. Users' own kernels, whose library is unknown, may still do so; Triton's reductions too
_POINTWISE = (
    "pooling",
    "activation",
    "elementwise",
    "layout",
    "cast",
    "copy",
    "random",
    "embedding",
    "optimizer",
    "communication",
)
_REDUCING = ("reduction", "softmax", "normalisation")

# a generated name inside a template, or the name before template arguments and parameters
_WRAPPED, _NAME = re.compile(r"\bcutlass(?:3x)?_(?!_)\w+"), re.compile(r"[^<(,]+")
_LONGEST_FIRST = "|".join(sorted(FLOATING, key=len, reverse=True))
# PyTorch's reductions may keep sums in a wider type than they read
_REDUCED = re.compile(r"\bReduceOp<(?:\w+::)?(" + _LONGEST_FIRST + r")(?!\w)")
# cuBLAS's gemmEx names the type of its sums first, also with a letter (sgemmEx), and then the type of its operands
_MIXED = re.compile(
    r"^[\w:]*gemmEx\w*(?:<\w+, *(" + "|".join(sorted({**FLOATING, **INTEGERS}, key=len, reverse=True)) + r")(?!\w))?"
)
# cuDNN's first convolutions are named after sgemm whatever they multiply; the first type is that of the input
_CONVOLVED = re.compile(r"\b\w*convolve_sgemm<(?:(" + _LONGEST_FIRST + r")(?!\w))?")
# a lambda computes in the type that it takes; the function around it may take other numbers
_LAMBDA = re.compile(r"lambda\((?:bool, )?(" + _LONGEST_FIRST + r")(?!\w)")
_TYPE = re.compile(r"(?<!\w)(" + _LONGEST_FIRST + r")(?!\w)")
_INTEGER = re.compile(r"(?:(?<!with_index)<|lambda\((?!int))(" + "|".join(sorted(INTEGERS, key=len, reverse=True)) + r")(?!\w)")
# Composable Kernel stores bf16 as unsigned short
_CK_TYPE = re.compile(r"(?<!\w)(" + _LONGEST_FIRST + r"|unsigned short)(?!\w)")
# cuDNN's generator names the instruction in a template argument: the type multiplied or, for f16, the type accumulated in
_TRAITS = re.compile(r"_(?:(?P<half>[hq]mma_fp(?:16|32))|(?P<byte>imma_\w+?)|[hq]mma_(?P<named>tf32|bf16))_traits")
_TILE = re.compile(r"(?:_|tilesize|MT|_bt|_t)(\d{1,4}x\d{1,4}(?:x\d{1,4})?)(?=_|u|$|[^0-9A-Za-z])")

_CODES, _TRANSPOSITIONS, _TENSOR_CORES = (
    Patterns([pattern for pattern, *_ in table]) for table in (CODES, TRANSPOSITIONS, TENSOR_CORES)
)


def dtype(spelled: str, kind: str | None = None) -> str | None:
    """Return the operands' element type, such as f32, f16, bf16, tf32, f8e4m3 or s8; None if the name has none.

    kind: the kernel's kind by its name. In kernels that move rows by index, integers are indices and say nothing.
    """
    if traits := _TRAITS.search(spelled):
        return traits["named"] or ("f16" if traits["half"] else "s8")
    if mixed := _MIXED.search(spelled):
        return (FLOATING | INTEGERS).get(mixed[1])
    if convolved := _CONVOLVED.search(spelled):
        return FLOATING.get(convolved[1])
    coded = _WRAPPED.search(spelled) or _NAME.match(spelled)
    if coded and (result := _CODES.first_match(coded[0])):
        return CODES[result[0]][1]
    if match := _REDUCED.search(spelled) or _LAMBDA.search(spelled) or (_CK_TYPE if "ck::" in spelled else _TYPE).search(spelled):
        return FLOATING.get(match[1], "bf16")
    match = None if kind == "embedding" else _INTEGER.search(spelled)
    return INTEGERS[match[1]] if match else None


def transpose(spelled: str) -> str | None:
    """Return the transposition flags of a product's operands, such as NT; None if the name has none."""
    result = _TRANSPOSITIONS.first_match(spelled)
    return (TRANSPOSITIONS[result[0]][1] or result[1][1].upper()) if result else None


def tensor_core(spelled: str, kind: str | None, library: str | None) -> bool | None:
    """Return whether a kernel multiplies on tensor cores, as far as its name, kind and library say; None if unknown."""
    if library and (kind in _POINTWISE or (kind in _REDUCING and library != "triton")):
        return False
    result = _TENSOR_CORES.first_match(spelled)
    return TENSOR_CORES[result[0]][1] if result else None


def tile(spelled: str) -> str | None:
    """Return the part of the result that a block computes, such as 128x64, or 128x64x32 with the inner dimension."""
    match = _TILE.search(spelled)
    return match[1] if match else None

"""What kernels' names tell: every rule's example, decisions between operator and name, and names that mean harm."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.kernels import known_names, mangled_names
from kernelscope.analysis.kernels import names as kernel_names
from kernelscope.analysis.kernels import types as kernel_types
from kernelscope.analysis.kernels.lookup import LONGEST, spell
from kernelscope.analysis.kernels.names import describe, describe_all
from kernelscope.analysis.kernels.rules import NAMESPACES, RULES
from kernelscope.analysis.trace import KINDS

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(x)"
COPY = "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda>(x)"
FORWARD, DATA, WEIGHT = "convolution forward", "convolution data gradient", "convolution weight gradient"

# name, kind, library, type, transposition, tensor cores
KNOWN = [
    ("ampere_sgemm_128x64_tn", "gemm", "cublas", "f32", "TN", False),
    ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "gemm", "cublas", "f16", "NN", True),
    ("volta_h884gemm_256x128_ldg8_tn", "gemm", "cublas", "f16", "TN", True),
    ("turing_h1688gemm_128x128_ldg8_stages_32x1_nt", "gemm", "cublas", "f16", "NT", True),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "gemm", "cublas", "f16", "TN", True),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "gemm", "cublas", "bf16", "TN", True),
    ("volta_dgemm_64x64_nn", "gemm", "cublas", "f64", "NN", False),
    ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN", "gemm", "cublas", "f16", "TN", True),
    ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "gemm", "cublas", "bf16", "TN", True),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, "
     "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>…",
     "reduction", "aten", "bf16", None, False),
    (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
        "gemm", "cublas", "f32", "TN", False,
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "gemm", "cublas", "bf16", "TN", True,
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(cutlass_80_tensorop_s1688gemm::Params)",
        "gemm", "cutlass", "tf32", "TN", True,
    ),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(int)", "gemm", "cutlass", "f32", "NN", False),
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x1_nn_align8>(x)",
        "gemm", "cutlass", "bf16", "NN", True),
    ("Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1", "gemm", "tensile", "f32", "NN", False),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT16x16x256_MI16x16x1_SN", "gemm", "hipblaslt", "bf16", "TN", True),
    ("Cijk_Ailk_Bjlk_HHS_BH_MT64x64x64_MI16x16x16x1_SN", "gemm", "tensile", "f16", "NT", True),
    ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(x)",
        "gemm", "cublas", "f32", "T", False),
    ("void splitKreduce_kernel<float, float, float, float, true, false, false>(x)", "gemm", "cublas", "f32", None, False),
    ("volta_scudnn_128x64_relu_interior_nn_v1", FORWARD, "cudnn", "f32", None, False),
    ("volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_exp_interior_nhwc_tn_v1", FORWARD, "cudnn", "f16", None, True),
    (
        "sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_g1_tensor16x8x8_kernel_cudnn",
        DATA, "cudnn", "tf32", None, True,
    ),
    (
        "sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_g1_tensor16x8x16_kernel_cudnn",
        WEIGHT, "cudnn", "f16", None, True,
    ),
    ("igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", DATA, "miopen", "bf16", None, True),
    ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", FORWARD, "miopen", "f32", None, None),
    ("_ZN5mxnet2op14forward_kernelEPfPKfS3_iiiiii", FORWARD, "mxnet", "f32", None, None),
    ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, cutlass::bfloat16_t>>(x)",
        "attention", "flash-attention", "bf16", None, True),
    ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params)",
        "attention", "cutlass", "f16", None, True),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)",
        "attention", "cutlass", "f32", None, True),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm70(PyTorchMemEffAttention::AttentionKernel<float>::Params)",
        "attention", "cutlass", "f32", None, None),
    ("_attn_fwd", "attention", "triton", None, None, None),
    ("CudaCodeGen::kernel1", "fused", "nvfuser", None, None, None),
    ("triton_poi_fused_add_mul_5", "elementwise", "triton", None, None, False),
    ("triton_poi_fused_addmm_relu_0", "activation", "triton", None, None, False),
    ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "normalisation", "triton", None, None, None),
    ("triton_per_fused__softmax_2", "softmax", "triton", None, None, None),
    ("triton_tem_fused_mm_0", "gemm", "triton", None, None, None),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "nccl", "bf16", None, False),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
        "elementwise", "aten", "f32", None, False),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, std::array<char*, 1ul> >(int)",
        "copy", "aten", "s64", None, False),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(int)::{lambda(float)#1}>",
        "cast", "aten", "f32", None, False),
    ("void cunn_SoftMaxForward<4, c10::Half, float, c10::Half>(c10::Half*, c10::Half const*, int)",
        "softmax", "aten", "f16", None, False),
    ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(x)", "optimizer", None, "f32", None, None),
    ("void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(x)",
        "activation", "vllm", "bf16", None, False),
    ("input_reduce_fusion_2", "reduction", "xla", None, None, False),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_...", "gemm", "cutlass", "tf32", None, True),  # cut by a table
    ("loop_add_fusion", "elementwise", "xla", None, None, False),
    ("void triad_kernel<double>(double*, double const *, double const *)", "elementwise", None, "f64", None, None),
    ("_Z6vecAddPfS_S_i", "elementwise", None, "f32", None, None),
    # engines on quantised weights, as nsys names their kernels: product, not element by element; softmax, not a maximum
    ("void mul_mat_q<(ggml_type)12, (int)64, (bool)0>(const char *, const int *, float *)", "gemm", "ggml", "f32", None, None),
    ("void dequantize_mul_mat_vec<(int)32, (int)2, &dequantize_q4_0>(const void *, const float *, float *, int, int)",
        "gemm", "ggml", "f32", None, None),
    ("void rope_norm<(bool)1>(const float *, float *, int)", "elementwise", "ggml", "f32", None, False),
    ("rope_f16", "elementwise", None, "f16", None, None),
    ("void paddle::operators::math::KernelDepthwiseConvSp<float, int=1, int=1, int=-1, bool=0>(float const *, int)",
        FORWARD, "paddle", "f32", None, None),
    ("void paddle::operators::math::KernelDepthwiseConvFilterGradSp<float, int=1, int=1>(float const *, int)",
        WEIGHT, "paddle", "f32", None, None),
    ("void onnxruntime::cuda::_UpampleNearestKernel<float, int=4>(onnxruntime::cuda::TArray<__int64, int=8>)",
        "elementwise", "onnxruntime", "f32", None, False),
    ("void k_get_rows<(int)32, (int)2, &dequantize_q4_0, float>(const void *, const int *, T4 *)",
        "embedding", "ggml", "f32", None, False),
    ("fused_sigmoid_gating_delta_rule_update_kernel", "attention", "fla", None, None, None),
    ("mult_square_matrix(int *, int *, int *, int)", "gemm", None, None, None, None),
    ("addVectorsInto(float *, float *, float *, int)", "elementwise", None, "f32", None, None),
    # cuBLAS's gemmEx: the type of its sums, then that of its operands
    ("void magma_sgemmEx_kernel<float, __nv_bfloat16, __nv_bfloat16, true, false, 6, 3>(int, int)",
        "gemm", "cublas", "bf16", None, False),
    ("void magma_sgemmEx_kernel<float, __nv_bfloat16, __nv...", "gemm", "cublas", "bf16", None, False),
    ("void magma_sgemmEx_kernel<float, __half, __half, true, false>(int)", "gemm", "cublas", "f16", None, False),
    ("_Z20magma_sgemmEx_kernelIf6__halfS0_Lb0ELb0EEvi", "gemm", "cublas", "f16", None, False),
    ("void magma_sgemmEx_kernel<float, float, float, true, false>(int)", "gemm", "cublas", "f32", None, False),
    ("void magma_sgemmEx_kernel<float, __n...", "gemm", "cublas", None, None, False),
    ("void magma_sgemmEx_kernel<float, signed char, float>(int)", "gemm", "cublas", "s8", None, False),
    ("magma_sgemmEx_kernel", "gemm", "cublas", None, None, False),
    ("magma_sgemm_kernel", "gemm", "cublas", "f32", None, False),
    # cuDNN's convolutions named after sgemm: the type of their input, whatever types the parameters have
    ("void cudnn::detail::implicit_convolve_sgemm<__half, __half, int=1024, int=5, int=5, int=3, int=3, int=3, int=1, bool=1>"
        "(int, int, int, __half const *, int, __half*, kernel_conv_params, int, float, float, int, __half, __half, int, int)",
        FORWARD, "cudnn", "f16", None, False),
    ("void cudnn::detail::implicit_convolve_sgemm<float, float, int=128>(int, __half const *)",
        FORWARD, "cudnn", "f32", None, False),
    ("void cudnn::detail::explicit_convolve_sgemm<double, int, 128>(int)", FORWARD, "cudnn", "f64", None, False),
    ("void cudnn::detail::implicit_convolve_sgemm<__ha...", FORWARD, "cudnn", None, None, False),
    ("cudnn::detail::implicit_convolve_sgemm", FORWARD, "cudnn", "f32", None, False),
    ("void my_gemm<__half, 4>(gemmExParams<float, float>)", "gemm", None, "f16", None, None),
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(RULES)), ids=lambda position: str(position + 1))
def test_every_rule_fires_for_its_example_before_any_other_does(position):
    rule = RULES[position]
    found = describe(rule.example)
    assert found.position == position, f"{rule.pattern} is unreachable for its example: {found.rule} fires"
    assert found.rule is rule
    assert found.kind == (rule.kind or "unknown")
    assert rule.kind is None or rule.kind in KINDS
    if rule.library is not None:
        assert found.library == rule.library


def test_rules_are_distinct():
    assert len({rule.pattern for rule in RULES}) == len(RULES)
    assert len({rule.example for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(("pattern", "dtype", "example"), kernel_types.CODES, ids=lambda value: str(value)[:40])
def test_codes_of_types(pattern, dtype, example):
    assert kernel_types.dtype(example) == dtype
    assert next(row for row in kernel_types.CODES if re.search(row[0], example))[0] == pattern


@pytest.mark.parametrize(("pattern", "flags", "example"), kernel_types.TRANSPOSITIONS, ids=lambda value: str(value)[:40])
def test_transpositions(pattern, flags, example):
    assert next(row for row in kernel_types.TRANSPOSITIONS if re.search(row[0], example))[0] == pattern
    found = kernel_types.transpose(example)
    assert found == flags if flags else found in ("N", "T", "NN", "TN")


@pytest.mark.parametrize(("pattern", "used", "example"), kernel_types.TENSOR_CORES, ids=lambda value: str(value)[:40])
def test_tensor_cores(pattern, used, example):
    assert next(row for row in kernel_types.TENSOR_CORES if re.search(row[0], example))[0] == pattern
    assert kernel_types.tensor_core(example, "gemm", "any") is used


@pytest.mark.parametrize(
    ("name", "kind", "library", "dtype", "transpose", "tensor_core"), KNOWN, ids=[row[0][:50] for row in KNOWN]
)
def test_names(name, kind, library, dtype, transpose, tensor_core):
    found = describe(name)
    assert (found.kind, found.library, found.dtype, found.transpose, found.tensor_core) == (
        kind, library, dtype, transpose, tensor_core,
    )  # fmt: skip
    assert found.decided_by == "name"


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("ampere_sgemm_128x64_tn", "128x64"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN", "128x256"),
        ("Cijk_Ailk_Bljk_SB_MT64x32x8_SE_K1", "64x32x8"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma", "64x256x8"),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32_wt32x32x8", "64x128x32"),
        ("void cudnn::winograd_nonfused::winogradForwardData9x9_5x5<float, float>(x)", None),
    ],
)
def test_tiles(name, tile):
    assert describe(name).tile == tile


@pytest.mark.parametrize(
    ("operator", "phase", "name", "kind", "decided_by"),
    [
        # the same product serves dense layers and convolutions
        ("aten::addmm", None, "volta_sgemm_128x64_nn", "gemm", "operator"),
        ("aten::cudnn_convolution", None, "volta_sgemm_128x64_nn", FORWARD, "operator"),
        ("aten::cudnn_convolution_backward_input", None, "volta_sgemm_128x64_nt", DATA, "operator"),
        ("Conv2DBackpropFilter", None, "maxwell_sgemm_128x128_nt", WEIGHT, "operator"),
        ("FullyConnected", "forward", "sgemm_sm35_ldg_tn_32x16x64x8x16", "gemm", "operator"),
        ("aten::cudnn_convolution", None, "void splitKreduce_kernel<float>(x)", FORWARD, "operator"),
        # one operator for both gradients, or for all directions
        ("aten::convolution_backward", None, "igemm_bwd_gtcx3_nhwc_bf16", DATA, "name"),
        ("aten::convolution_backward", None, "igemm_wrw_gtcx3_nhwc_bf16", WEIGHT, "operator"),
        ("aten::convolution_backward", None, "igemm_fwd_gtcx3_nhwc_bf16", DATA, "name"),
        ("ConvolutionBackward0", None, "void cudnn::detail::dgrad_engine<float, 512, 6, 5>(x)", DATA, "name"),
        ("_backward_Convolution", None, "cudnn_dgrad_sm35_ldg_nt_32x16x64x8x16", DATA, "name"),
        ("Convolution427", "backward", "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6>(x)", WEIGHT, "operator"),
        ("Convolution427", "backward", "maxwell_scudnn_128x128_stridedB_small_nn", DATA, "name"),
        ("Convolution427", None, "maxwell_scudnn_128x128_stridedB_small_nn", DATA, "name"),
        # an operator that says which direction it is is believed: kernels of one direction serve another
        ("Conv2DBackpropInput", None, "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", DATA, "operator"),
        ("aten::cudnn_convolution_backward_weight", None, "void fft2d_r2c_32x32<float, false>(x)", WEIGHT, "operator"),
        ("aten::cudnn_convolution_transpose", None, "void cudnn::detail::dgrad_engine<float, 512, 6, 5>(x)", FORWARD, "operator"),
        ("aten::cudnn_convolution", "backward", "volta_scudnn_128x64_relu_interior_nn_v1", FORWARD, "operator"),
        # moves stay moves
        ("aten::cudnn_convolution", None, "void nchwToNhwcKernel<float, float, float>(x)", "layout", "name"),
        ("aten::miopen_convolution", None, "Im2d2Col_v2", "layout", "name"),
        ("aten::miopen_convolution", None, "SubTensorOpWithScalar1d", "copy", "name"),
        ("aten::addmm", None, COPY, "copy", "name"),
        ("aten::linear", None, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "communication", "name"),
        ("aten::copy_", None,
            "void at::native::vectorized_elementwise_kernel<4, at::native::float16_copy_kernel_cuda>(x)", "cast", "name"),
        ("aten::_to_copy", None, COPY, "cast", "operator"),
        ("aten::index_select", None, "gather_kernel(float const*, int const*)", "embedding", "operator"),
        ("aten::index_select", None, "copy_kernel(float const*, float*)", "copy", "name"),
        ("aten::cudnn_convolution", None, "gather_kernel(float const*, int const*)", "copy", "name"),
        ("Transpose", None, "void copy_kernel<float>(x)", "layout", "operator"),
        # parts of an operator are the operator
        ("aten::native_batch_norm", None,
            "void at::native::unrolled_elementwise_kernel<at::native::add>(x)", "normalisation", "operator"),
        ("aten::cudnn_batch_norm", None,
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)", "normalisation", "operator"),
        ("aten::_cudnn_rnn", None, "volta_sgemm_128x64_nn", "recurrent", "operator"),
        ("aten::_scaled_dot_product_attention_math", None, "ampere_sgemm_128x64_tn", "attention", "operator"),
        ("aten::_scaled_dot_product_attention_math", None,
            "void softmax_warp_forward<float, float, float, 8>(x)", "softmax", "name"),
        ("aten::_foreach_add_", None,
            "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<2>>(x)", "optimizer", "operator"),
        # no operator, or one that says nothing
        ("CompiledFxGraph", None, "volta_sgemm_128x64_nn", "gemm", "name"),
        ("triton_poi_fused_addmm_gelu_view_15", None, "triton_poi_fused_addmm_gelu_view_15", "activation", "name"),
        ("triton_red_fused_convolution_mean_0", None, "triton_red_fused_convolution_mean_0", "reduction", "name"),
        ("aten::mul", None, "a_name_that_tells_nothing", "elementwise", "operator"),
        ("zzz", None, "a_name_that_tells_nothing", "unknown", "nothing"),
        (None, None, "triton__0d1d2d3de", "unknown", "nothing"),
        (None, "optimizer", ADD, "optimizer", "name"),
        (None, "backward", "volta_scudnn_128x64_relu_interior_nn_v1", DATA, "name"),
        (None, "backward", "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6>(x)", WEIGHT, "name"),
        ("Mul", "optimizer", ADD, "optimizer", "operator"),
        # a compiler names the operator after the last instruction of what it fused
        ("convert_element_type", None, "input_reduce_fusion.kd", "reduction", "name"),
        ("convert_element_type", None, "loop_convert_fusion_3", "elementwise", "name"),
        ("convert_element_type", None, "wrapped_convert", "cast", "operator"),
        ("tanh", None, "loop_convert_fusion", "activation", "operator"),
        (None, None, "loop_convert_fusion", "elementwise", "name"),
    ],
)  # fmt: skip
def test_operator_and_name(operator, phase, name, kind, decided_by):
    found = describe(name, operator, phase)
    assert (found.kind, found.decided_by) == (kind, decided_by)


@pytest.mark.parametrize(
    ("name", "kind", "library"),
    [
        # as torch.profiler's tables cut them
        ("void at::native::(anonymous namespace)::fused_dropou...", "random", "aten"),
        ("void at::native::(anonymous namespace)::GammaBetaBac...", "normalisation", "aten"),
        ("void at::native::(anonymous namespace)::vectorized_l...", "normalisation", "aten"),
        ("void at::native::(anonymous namespace)::layer_norm_g...", "normalisation", "aten"),
        ("void at::native::(anonymous namespace)::distribution...", "random", "aten"),
        ("void at::native::(anonymous namespace)::CatArrayBatc...", "copy", "aten"),
        # known names with this beginning are of several kinds: vectorized_elementwise_kernel, vectorized_gather_kernel
        ("void at::native::(anonymous namespace)::vectorized_...", "unknown", "aten"),
        ("void at::native::(anonymous namespace)::...", "unknown", "aten"),
        # an example of a rule, as nsys cuts it
        ("void tensorflow::functor::SwapDimension1And2InTen\u2026", "layout", "tensorflow"),
        # no known name begins so; too short; not cut
        ("void at::native::(anonymous namespace)::kernel_of_to...", "unknown", "aten"),
        ("CatArr...", "unknown", None),
        ("void at::native::(anonymous namespace)::GammaBetaBac", "unknown", "aten"),
    ],
)
def test_names_that_were_cut(name, kind, library):
    found = describe(name)
    assert (found.kind, found.library) == (kind, library)


def test_names_that_complete_cut_ones_have_kinds():
    assert len(set(known_names.ATEN)) == len(known_names.ATEN)
    assert [name for name in known_names.ATEN if describe(f"at::native::{name}").kind == "unknown"] == []


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("gemv_kernel(float const*, float const*, float*, int)", None), ("my_gemv_kernel(float*)", None),
        ("void gemvNSP_kernel<float, float, float, 1, 16, 4, 1024>(int)", "cublas"), ("gemv2N_kernel", "cublas"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(int)", "cublas"),
    ],
)  # fmt: skip
def test_a_users_product_with_a_vector_is_of_no_library(name, library):
    assert (describe(name).kind, describe(name).library) == ("gemm", library)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # what initialises may compute, and what copies before it computes is no copy
        ("init(int*, int)", "unknown"),
        ("init_particle(ParticleSystem*)", "unknown"),
        ("initialize_velocities(float*)", "unknown"),
        ("gpu_register_copy_arith(int*, int*)", "unknown"),
        ("gpu_global_arith(int*, int*)", "unknown"),
        ("find_split_kernel(float const*, int)", "unknown"),
        ("flood_fill(unsigned char*, int)", "unknown"),
        ("copy(int, int, __half *, __half *)", "copy"),
        ("copy_vector_half(int, int, __half2 *, __half2 *)", "copy"),
        ("zero_kernel(float*)", "copy"),
        ("init_zero(float*, int)", "copy"),
        ("find_min_fitness_parallel(ParticleSystem*)", "reduction"),
        ("row_sums(float const*, float*, unsigned long)", "reduction"),
        ("column_sums(float const*, float*, unsigned long)", "reduction"),
        ("checksums(float const*)", "unknown"),
    ],
)
def test_users_own_kernels_have_a_kind_where_their_name_leaves_no_doubt(name, kind):
    assert describe(name).kind == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void conv2d_grouped_direct_kernel<__half, __half, bool=1>(cudnnTensorStruct, __half const *, cudnnConvolutionStruct, "
         "cudnn::reduced_divisor, cudnn::reduced_divisor, int)", FORWARD),
        ("void conv2d_grouped_direct_kernel<__half, __half, bool=1>(cudnnTensorStruct, float, cudnn::reduce", FORWARD),
        ("void wgrad2d_grouped_direct_kernel<__half, float>(cudnnTensorStruct, cudnn::reduced_divisor)", WEIGHT),
        ("void dgrad2d_grouped_direct_kernel<__half, float>(cudnnTensorStruct, cudnn::reduced_divisor)", DATA),
        ("void dgrad2d_c1_k1_nchw_hw_packed_kernel<float, float>(cudnn::reduced_divisor)", DATA),
        ("void conv2d_c1_k1_nchw_hw_packed_kernel<float, float>(cudnn::reduced_divisor)", FORWARD),
        ("void pooling_bw_kernel_max_nchw<float>(cudnnTensorStruct, cudnn::reduced_divisor, cudnn::reduced_divisor)", "pooling"),
        ("void cudnn::pooling_any_kernel<float>(cudnnTensorStruct, cudnn::reduced_divisor)", "pooling"),
        ("void bn_fw_tr_1C11_kernel_NCHW<float>(cudnnTensorStruct, cudnn::reduced_divisor)", "normalisation"),
        ("void cudnn::ops::softmax_fw_kernel<2, float>(cudnn::reduced_divisor, cudnn::reduced_divisor)", "softmax"),
        ("void op_generic_tensor_kernel<2, float>(cudnnTensorStruct, cudnn::reduced_divisor)", "elementwise"),
        ("_Z7my_convPfPN5cudnn15reduced_divisorE", FORWARD),
        ("my_sum_kernel(at::native::softmax_params, float*)", "reduction"),
        ("transpose_tile<float, 32>(float (*)(cudnn::ops::reduce_mode), float*)", "layout"),
        # a name that says nothing itself: no divisor reduces, but what the rules need to know may stand there
        ("void cudnn::cnn::anything<float>(cudnnTensorStruct, cudnn::reduced_divisor, float)", "unknown"),
        ("my_kernel(cudnn::reduced_divisor)", "unknown"),
        ("invoke_barrier(std::shared_ptr<ccl_comm>, std::vector<ccl::event>)", "communication"),
        ("fenceOps (NCCL sync)", "communication"),
        ("wait_rccl_flag", "communication"),
        ("my_kernel(ncclComm*)", "unknown"),
        ("fenceOps (L2 sync)", "unknown"),
        ("void epilogue::impl::globalKernel<float, true>(int, cublasLtEpilogue_t, float*)", "elementwise"),
        ("void cudnn::reduction::reduce_range_smem<512, 1>(cudnn::reduced_divisor)", "reduction"),
    ],
)  # fmt: skip
def test_types_of_parameters_tell_only_what_the_name_leaves_open(name, kind):
    assert describe(name).kind == kind


@pytest.mark.parametrize(
    ("name", "kind", "algorithm"),
    [
        ("void cub::CUB_200700_750_NS::DeviceScanKernel<cub::CUB_200700_750_NS::DeviceScanPolicy<int, cub::CU\u2026",
         "reduction", "scan"),
        ("void cub::CUB_200700_750_NS::DeviceScanInitKernel<cub::CUB_200700_750_NS::ScanTileState<int, (bool)\u2026",
         "reduction", "scan"),
        ("void cub::CUB_200700_750_NS::detail::scan::DeviceScanByKeyKernel<x>(y)", "reduction", "scan"),
        ("void cub::CUB_200700_750_NS::DeviceReduceSingleTileKernel<x>(y)", "reduction", None),
        ("void cub::CUB_200700_750_NS::detail::rle::DeviceRleSweepKernel<x>(y)", "reduction", None),
        ("void cub::CUB_200700_750_NS::detail::select::DeviceSelectSweepKernel<cub::CUB_200700_750_NS::ScanTileState<int>>(y)",
         "copy", "selection"),
        ("void cub::CUB_200700_750_NS::DeviceUniqueByKeySweepKernel<x>(y)", "copy", "selection"),
        ("void cub::CUB_200700_750_NS::DeviceRadixSortOnesweepKernel<x>(y)", "reduction", "sort"),
        ("void at_cuda_detail::cub::DeviceReduceKernel<x>(y)", "reduction", None),
        ("DeviceScanInitKernel", "reduction", "scan"),
        ("DeviceReduceByKeyKernel", "reduction", None),
        ("DeviceSegmentedReduceKernel", "reduction", None),
        ("DeviceSelectSweepKernel", "copy", "selection"),
        ("DeviceRadixSortHistogramKernel", "reduction", "sort"),
        ("void cub::CUB_200700_750_NS::detail::for_each::static_kernel<cub::X>(y)", "elementwise", "for each"),
        ("void cub::CUB_200700_750_NS::detail::transform::transform_kernel<cub::X>(y)", "elementwise", "for each"),
    ],
)  # fmt: skip
def test_cub_with_its_version_as_a_namespace_or_without_any(name, kind, algorithm):
    found = describe(name)
    assert (found.kind, found.rule.algorithm) == (kind, algorithm)
    assert found.library == ("thrust" if algorithm == "for each" else "cub")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("counting_sort_scatter_kernel(Particles, Particles, int *, int *, int)", "reduction"),
        ("bitonicSortStep(float*, int, int)", "reduction"),
        ("radix_sort", "reduction"),
        ("resort_kernel(float*)", "unknown"),
        ("assorted_kernel(float*)", "unknown"),
        ("scatter_and_key_kernel(Particles, Particles, int *)", "copy"),
        ("gather(double const*, double*, int const*)", "copy"),
        ("gatherer(double const*)", "unknown"),
        ("scatter_add_kernel(float*)", "embedding"),
        ("gather_rows(float*)", "embedding"),
        ("embedding_sort_kernel(int*)", "embedding"),
        ("void paddle::operators::gather_kernel<float>(x)", "embedding"),
        ("phi::scatter_kernel(x)", "embedding"),
        ("DeviceInfoKernel", "unknown"),
        ("multiply", "elementwise"),
        ("multiply(float*, float*, float*, int)", "elementwise"),
        ("multiply(int *, int const *, int *, int)", "elementwise"),
        ("multiply(float*, float*, float*, int, int, int)", "unknown"),  # of matrices?
        ("multiply_matrices(float*, float*)", "gemm"),
        ("multiplyAll", "unknown"),
        ("axpbyz", "elementwise"),
        ("axpby", "elementwise"),
        ("axpb", "elementwise"),
        ("axpy", "elementwise"),
        ("scal", "elementwise"),
        ("void divide<float>(float*, int)", "elementwise"),
        ("divide_cells(float*)", "unknown"),
        ("diff", "unknown"),
    ],
)
def test_words_of_users_own_kernels(name, kind):
    assert describe(name).kind == kind


def test_axpy_of_a_library_is_its_own():
    assert describe("void axpy_kernel_val<float, double>(cublasAxpyParamsVal<float>)").library == "cublas"
    assert describe("axpy").library is None


@pytest.mark.parametrize(
    ("name", "kind", "decided_by"),
    [
        ("quantized::linear_dynamic", "gemm", "operator"),
        ("quantized::conv2d_relu", FORWARD, "operator"),
        ("quantized::conv2d_prepack", "layout", "operator"),
        ("aten::aminmax", "reduction", "operator"),
        ("aten::gather", "embedding", "operator"),
        ("aten::a_name_that_tells_nothing", "unknown", "nothing"),
        ("mine::softmax", "softmax", "name"),
        ("void aten::anything<float>(int)", "unknown", "nothing"),
    ],
)
def test_a_kernel_named_like_an_operator_of_pytorch_is_that_operator_s(name, kind, decided_by):
    found = describe(name)
    assert (found.kind, found.decided_by) == (kind, decided_by)
    assert describe(name, "aten::mul").operator_kind == "elementwise"


def test_the_name_tells_the_rest_where_the_operator_decides():
    found = describe("volta_sgemm_128x64_nn", "aten::cudnn_convolution")
    assert (found.library, found.dtype, found.transpose, found.tensor_core) == ("cublas", "f32", "NN", False)
    assert found.operator_kind == FORWARD
    assert found.rule is not None
    assert found.rule.kind == "gemm"


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("void at::native::<unnamed>::f<(int)4, (bool)0>(T1)", "at::native::f<4, 0>(T1)"),
        ("void at::native::(anonymous namespace)::f<4>(int)", "at::native::f<4>(int)"),
        ("void fft2d_c2r_32x32<float, bool=0, int=-1>(float*)", "fft2d_c2r_32x32<float, 0, -1>(float*)"),
        ("void tensorflow::_GLOBAL__N__67_tmpxft_000040f7_00000000_13_op_gpu_cu_compute_52_cpp1_ii_af505f36::f<float>(int)",
            "tensorflow::f<float>(int)"),
        ("void at::native::_GLOBAL__N__0a1b2c3d_9_Things_cu_89abcdef::things_out_frame<float>(int)",
            "at::native::things_out_frame<float>(int)"),
        ("maxwell_sgemm_128x128_nt [1234]", "maxwell_sgemm_128x128_nt"),
        ("wrapped_transpose.kd", "wrapped_transpose"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8 [clone .kd]", "Cijk_Ailk_Bljk_SB_MT64x64x8"),
        ("std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::f<c10::BFloat16, 8>(int)",
            "vllm::f<c10::BFloat16, 8>(int)"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
    ],
)  # fmt: skip
def test_spelling(name, spelled):
    assert spell(name) == spelled


@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        ("_Z11flip_filterIffEvPT0_PKT_iiii", "flip_filter<float, float>, void, int, int, int, int"),
        ("_Z10someKernelv", "someKernel, void"),
        ("_ZL9my_kernelPfi", "my_kernel, float, int"),
        ("_ZN2at6native13reduce_kernelILi512ENS0_8ReduceOpIfNS0_7NormOpsIfEEjfLi4EEEEEvT0_",
            "at::native::reduce_kernel<512, ReduceOp<float, NormOps<float>, unsigned int, float, 4>>, void"),
        ("_ZN10tensorflow7functor27SwapDimension0And2InTensor3IfEEviPKT_NS0_9DimensionILi3EEEPS2_",
            "tensorflow::functor::SwapDimension0And2InTensor3<float>, void, int, Dimension<3>"),
        ("_ZN2at6native78_GLOBAL__N__54_tmpxft_00008e34_00000000_11_SoftMax_compute_75_cpp1_ii_a331004219cunn_SoftMaxForwardILi2EfffEEvi",
            "at::native::cunn_SoftMaxForward<2, float, float, float>, void, int"),
        # an enumerator's number is no length
        ("_ZN2ck6kernelILNS_25InMemoryDataOperationEnumE1ELNS_3FooE7ELi256ELb1EEEvv",
            "ck::kernel<InMemoryDataOperationEnum, Foo, 256, true>, void, void"),
        ("_Z1fIL21cudnnNanPropagation_t0ELi3EEvf", "f<cudnnNanPropagation_t, 3>, void, float"),
        ("_ZN3foo3barIDF16_6__halfEEvv", "foo::bar<_Float16, __half>, void, void"),
    ],
)  # fmt: skip
def test_mangled_names(mangled, text):
    assert mangled_names.is_mangled(mangled)
    assert mangled_names.readable(mangled) == text


@given(st.text(alphabet="_ZNIELSTPKUX0123456789fdijlbvabc", max_size=300))
def test_no_mangled_name_stops_the_reader(tail):
    text = mangled_names.readable("_Z" + tail)
    assert len(text) <= 20 * len(tail) + 20


@settings(max_examples=50)
@given(
    st.text(max_size=200),
    st.one_of(st.none(), st.text(max_size=40)),
    st.sampled_from([None, "forward", "backward", "optimizer", "data"]),
)
def test_any_text_has_a_kind(name, operator, phase):
    found = describe(name, operator, phase)
    assert found.kind in KINDS
    assert found.decided_by in ("operator", "name", "nothing")
    assert (found.kind == "unknown") == (found.decided_by == "nothing")


# beginnings of patterns over and over, which a careless pattern would read from every one of them to the end
HOSTILE = sorted(
    {re.sub(r"\\.|[\^$(?:)\[\]*+{}|]", " ", rule.pattern).split(" ")[0] or "x" for rule in RULES}
    | {"a_", "::", "<", "at::native::", "cutlass_", "_ZN1a"}
)


def test_hostile_names_cost_no_more_than_others():
    """Not timed: a pattern that backtracks without bound would not end within a test run."""
    for text in HOSTILE:
        for name in (text * (100_000 // len(text)), "_ZN" + text * 30_000):
            assert describe(name).kind in KINDS
            assert len(spell(name)) <= LONGEST


def test_columns():
    names = pd.Series(
        pd.Categorical(
            ["ampere_sgemm_128x64_tn", "Im2d2Col_v2", "ampere_sgemm_128x64_tn", None],
            categories=["never_used", "ampere_sgemm_128x64_tn", "Im2d2Col_v2"],
        ),
        index=[9, 7, 5, 3],
    )
    operators = pd.Series(pd.Categorical(["aten::addmm", None, "aten::cudnn_convolution", "aten::mul"]), index=[9, 7, 5, 3])
    table = describe_all(names, operators, None)
    assert table.index.tolist() == [9, 7, 5, 3]
    assert table["kind"].tolist() == ["gemm", "layout", FORWARD, "elementwise"]
    assert table["library"].tolist()[:3] == ["cublas", "miopen", "cublas"]
    assert table["transpose"].isna().tolist() == [False, True, False, True]
    assert table["tensor_core"].tolist()[:3] == [False, False, False]
    assert table["tensor_core"].isna().tolist() == [False, False, False, True]
    assert list(table.columns) == ["kind", "library", "algorithm", "dtype", "transpose", "tensor_core"]
    assert all(isinstance(table[column].dtype, pd.CategoricalDtype) for column in table.columns[:-1])
    assert str(table["tensor_core"].dtype) == "boolean"


def test_columns_say_what_describe_says():
    names = [rule.example for rule in RULES] * 3
    operators = [None, "aten::mul", "aten::convolution_backward"] * len(RULES)
    phases = (["forward"] * 5 + ["backward"] * 2) * len(RULES)
    rows = list(zip(names, operators, phases, strict=False))
    for kind in ("object", "string", "category"):
        table = describe_all(*(pd.Series(column, dtype="object").astype(kind) for column in zip(*rows, strict=True)))
        for number in range(0, len(rows), 7):
            found = describe(*rows[number])
            row = table.iloc[number]
            for column in kernel_names.COLUMNS:
                expected = getattr(found, column)
                assert row[column] == expected if expected is not None else pd.isna(row[column]), (rows[number], column)


def test_each_name_is_looked_at_once(monkeypatch):
    looked = []
    real = kernel_names.describe

    def count(*arguments):
        looked.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(kernel_names, "describe", count)
    codes = np.random.default_rng(1).integers(0, 3, 200_000)
    names = pd.Series(pd.Categorical.from_codes(codes, categories=["ampere_sgemm_128x64_tn", "Im2d2Col_v2", "zzz"]))
    assert describe_all(names)["kind"].value_counts().to_dict() == {
        kind: int((codes == code).sum()) for code, kind in enumerate(("gemm", "layout", "unknown"))
    }
    assert len(looked) == 3


def test_no_rows():
    table = describe_all(pd.Series([], dtype="category"), pd.Series([], dtype="category"), pd.Series([], dtype="string"))
    assert table.empty
    assert list(table.columns) == list(kernel_names.COLUMNS)
    assert str(table["tensor_core"].dtype) == "boolean"


@pytest.mark.parametrize(("namespace", "library"), NAMESPACES)
def test_unknown_kernels_of_known_libraries(namespace, library):
    found = describe(f"void {namespace.removesuffix('::')}::zzz_of_tomorrow<float>(at::Tensor)")
    assert (found.kind, found.library) == ("unknown", library)
    assert describe("void zzz_of_tomorrow<float>(at::Tensor, cudnn::Params)").library is None

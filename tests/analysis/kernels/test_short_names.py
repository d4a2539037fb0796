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
        ("void at::native::_GLOBAL__N__0a1b2c3d_9_Things_cu_89abcdef::things_out_frame<float>(int)", "things_out_frame"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("work/plain.py: <genexpr>", "work/plain.py: <genexpr>"),
        ("net.py: <lambda> at line 12", "net.py: <lambda> at line 12"),
        ("<string>: <module>", "<string>: <module>"),
        ("bin/tool: <module>", "bin/tool: <module>"),
        ("<frozen importlib._bootstrap>: _find", "<frozen importlib._bootstrap>: _find"),
        (f"{'long/' * 9}losses_of_all_nets.py: reduce_kernel", "long/long/long/long/losses_of_all_nets.py: reduce_kernel"),
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


def bulk(work: str, iterators: str) -> str:
    """What thrust of CUDA 8 names its kernels, as nvprof writes it."""
    return (
        "void thrust::system::cuda::detail::bulk_::detail::launch_by_value<unsigned int=0, "
        "thrust::system::cuda::detail::bulk_::detail::cuda_task<thrust::system::cuda::detail::bulk_::parallel_group<"
        "thrust::system::cuda::detail::bulk_::agent<unsigned long=1>, unsigned long=0>, "
        "thrust::system::cuda::detail::bulk_::detail::closure<thrust::system::cuda::detail::for_each_n_detail::for_each_kernel, "
        f"thrust::tuple<thrust::system::cuda::detail::bulk_::detail::cursor<unsigned int=0>, {iterators}, "
        f"thrust::detail::wrapped_function<{work}, void>, unsigned int, thrust::null_type, thrust::null_type>>>>(unsigned long=1)"
    )


WINDOWS = (
    "thrust::zip_iterator<thrust::tuple<thrust::window_iterator<{0}, thrust::device_malloc_allocator<{0}>>, thrust::null_type>>"
)
CUT = ", void>, unsigned int, thrust::null_type, thrust::null_type>>>>(unsigned long=1)"


@pytest.mark.parametrize(
    ("name", "shortened"),
    [
        (bulk("thrust::detail::binary_transform_functor<convolutionFunctor>", WINDOWS.format("float")),
         "thrust::launch_by_value (convolutionFunctor, float)"),
        (bulk("thrust::detail::binary_transform_functor<convolutionFunctor>", WINDOWS.format("unsigned char")),
         "thrust::launch_by_value (convolutionFunctor, unsigned char)"),
        # the user's type of elements comes first, what is run counts
        (bulk("update", "thrust::device_ptr<Particle>"), "thrust::launch_by_value (update)"),
        # nothing of the user's
        (bulk("thrust::detail::device_generate_functor<thrust::detail::fill_functor<float>>", "thrust::device_ptr<float>"),
         "thrust::launch_by_value (fill_functor, float)"),
        ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<"
         "thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>, unsigned long>>(T1, T2)",
         "thrust::_kernel_agent (__uninitialized_fill, float)"),
        ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<"
         "thrust::cuda_cub::for_each_f<thrust::device_ptr<double>, thrust::detail::wrapped_function<<unnamed>::saxpy>>>>(T2)",
         "thrust::_kernel_agent (saxpy, double)"),
        ("void cub::CUB_200200_800_NS::detail::for_each::static_kernel<cub::CUB_200200_800_NS::policy_hub_t, (long)2, "
         "thrust::cuda_cub::__transform::unary_transform_f<thrust::device_ptr<float>, app::square, thrust::always_true>>(T2, T3)",
         "cub::CUB_200200_800_NS::detail::for_each::static_kernel (app::square, float)"),
        ("void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float, unsigned int, cub::Sum>::Policy600, float*>(T2, T3)",
         "cub::DeviceReduceKernel"),
        # names whose beginning was cut off, with and without notes
        ("compute_force_functor>" + CUT, "compute_force_functor"),
        ("<updateOp>" + CUT, "updateOp"),
        ("//Non Shared <compute_force_functor>" + CUT, "compute_force_functor"),
        ("//Shared  updateAccOp>(long, float, thrust::device_ptr<float>)", "updateAccOp"),
        ("//All reduces void thrust::generic_reduce_kernel<thrust::device_ptr<float>, unsigned int=256, thrust::plus<float>>()",
         "thrust::generic_reduce_kernel"),
        # a user's own kernel is no library's
        ("void my_kernel<thrust::plus<float>>(thrust::device_ptr<float>)", "my_kernel"),
        ("thrust::convolutionRowsKernel(float*, int, int)", "thrust::convolutionRowsKernel"),
    ],
)  # fmt: skip
def test_kernels_of_thrust_and_cub_keep_what_they_run(name, shortened):
    assert short(name) == shortened


def test_hostile_names_of_thrust_have_a_short_name():
    for text in ("thrust::", "thrust::<a_functor<", "//a ", "// void thrust::a<b::", "closure<thrust::"):
        assert short("thrust::" + text * 20_000)
        assert short(text * 20_000 + "cub::")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_Z9vectorAddPKfS0_Pfi", "vectorAdd"),
        ("_ZN7ck_tile6kentryILi1ENS_19FmhaBwdDQDKDVKernelINS_2...", "ck_tile::kentry (FmhaBwdDQDKDVKernel)"),
        ("void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::X>>(int)", "ck_tile::kentry (FmhaFwdKernel)"),
    ],
)
def test_mangled_names_and_what_amd_s_kernels_run(name, expected):
    assert short(name) == expected

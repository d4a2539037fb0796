"""What a kernel's name tells: one table, read from top to bottom; the first rule whose pattern is found in the name counts.

Rules see names in one spelling (`kernel_names.spell`): mangled names read out, without return type, anonymous namespaces and the
casts that nsys and nvprof write into template arguments. So `void at::native::<unnamed>::f<(int)4>(T1)` is `at::native::f<4>(T1)`.
An example is a name as a profiler showed it; long ones are cut, as nsys cuts them, with "…".

Kinds are those of `analysis.trace`, or None where a name tells the library only. Convolutions whose direction the name does not
tell count as forward; the operator and the phase know better (see `kernel_names.describe`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """Kernels in whose spelled name `pattern` is found come from `library`, are of `kind` and compute by `algorithm`.

    library: None where the name does not tell, as with users' own kernels. kind: None where it tells the library only.
    """

    pattern: str
    library: str | None
    kind: str | None
    algorithm: str | None
    example: str


_FORWARD, _DATA, _WEIGHT = "convolution forward", "convolution data gradient", "convolution weight gradient"

_COMMUNICATION = (
    # NCCL and RCCL name a kernel by collective, then algorithm, protocol, operation and type, in an order that has changed
    Rule(r"^nccl\w*AllReduce", "nccl", "communication", "all-reduce", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
    Rule(r"^nccl\w*AllGather", "nccl", "communication", "all-gather", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    Rule(r"^nccl\w*ReduceScatter", "nccl", "communication", "reduce-scatter", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    Rule(r"^nccl\w*Broadcast", "nccl", "communication", "broadcast", "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"),
    Rule(r"^nccl\w*SendRecv", "nccl", "communication", "send and receive", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"),
    Rule(r"^nccl\w*_Reduce_", "nccl", "communication", "reduce", "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    Rule(r"^(?:nccl|rccl|mscclKernel)", "nccl", "communication", None, "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"),
    Rule(r"cross_device_reduce_\d", "vllm", "communication", "all-reduce", "void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*, …"),
    Rule(r"multimem_\w*reduce|(?:one|two)_shot_all_reduce", "aten", "communication", "all-reduce", "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long, …"),
    Rule(r"deep_ep::", "deepep", "communication", "all-to-all", "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, …"),
    Rule(r"nvshmem\w*_(?:kernel|barrier)|nvshmemi?_", "nvshmem", "communication", None, "void nvshmemi_put_signal_kernel<…"),
    Rule(r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|quickreduce", None, "communication", None, "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<…"),
)  # fmt: skip

_ATTENTION = (
    Rule(r"flash_fwd_splitkv_combine|combine_attn_seqk", "flash-attention", "attention", "split-kv reduction", "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4, …"),
    Rule(r"flash_(?:fwd|bwd)|\bflash::|pytorch_flash::|Flash(?:Attn|Attention)(?:Fwd|Bwd|Forward|Backward)", "flash-attention", "attention", "flash", "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, …"),
    Rule(r"fmha_cutlass[FB]_|PyTorchMemEffAttention|\bAttention(?:Backward)?Kernel<", "cutlass", "attention", "memory efficient", "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<…"),
    Rule(r"cudnn_generated_fort_native_sdpa|^cudnn\w*_sdpa_", "cudnn", "attention", "flash", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"),
    Rule(r"^fmhaSm\d+|^fmha_v2_|masked_multihead_attention|tensorrt_llm::\w*.*[Aa]ttention", "tensorrt-llm", "attention", "flash", "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext"),
    Rule(r"(?:Batch|Single)(?:Prefill|Decode)With\w*Kernel|flashinfer::.*(?:Attention|MergeState|VariableLengthMerge)", "flashinfer", "attention", "flash", "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<…"),
    Rule(r"ck_tile::.*Fmha|kernel_batched_gemm_softmax_gemm|FmhaFwd|FmhaBwd", "ck", "attention", "flash", "void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<…"),
    Rule(r"aiter.*(?:fmha|mla|attn|attention)|^(?:fmha_(?:fwd|bwd)|mla_|pa_)\w*", "aiter", "attention", "flash", "_ZN5aiter24fmha_fwd_hd128_bf16_rtneE"),
    Rule(r"paged_attention", "vllm", "attention", "paged", "void vllm::paged_attention_v1_kernel<__half, __half, 128, 16, 128, (vllm::Fp8KVCacheDataType)0, false>(…"),
    Rule(r"merge_attn_states", "vllm", "attention", "split-kv reduction", "void vllm::merge_attn_states_kernel<__nv_bfloat16, 128, true>(…"),
    # Triton's tutorial, vLLM, SGLang and AOTriton write flash attention under these names
    Rule(r"^_?(?:attn_fwd|attn_bwd|bwd_kernel_(?:dk_dv|dq|fuse)|bwd_preprocess)\b|^_attn_(?:fwd|bwd)", "triton", "attention", "flash", "attn_fwd"),
    Rule(r"^_(?:fwd|bwd)_(?:kernel|grouped_kernel|preprocess)", "triton", "attention", "flash", "_fwd_kernel"),
    Rule(r"^triton_tem_fused\w*attention", "triton", "attention", "flash", "triton_tem_fused_flex_attention_1"),
    Rule(r"transform_bias_rescale_qkv", "aten", "attention", "split of heads", "void at::native::transform_bias_rescale_qkv_kernel<float, float, true>(…"),
)  # fmt: skip

_TRITON = (
    # torch.compile writes what it fused into the name; views cost nothing, and "addmm" or "convolution" is the product's
    # bias or epilogue, never the product itself (that is a template, tem, or a library's)
    Rule(r"^triton_tem_fused\w*conv", "triton", _FORWARD, "template", "triton_tem_fused_convolution_3"),
    Rule(r"^triton_(?:tem_fused|mm|bmm)", "triton", "gemm", "template", "triton_tem_fused_addmm_relu_0"),
    Rule(r"^triton_for_fused", "triton", "optimizer", "foreach", "triton_for_fused_2"),
    Rule(r"^triton_(?:red|per|mix)_fused\w*(?:layer_norm|batch_norm|group_norm|rms_norm|instance_norm)", "triton", "normalisation", "fused", "triton_red_fused__unsafe_view_add_addmm_mul_native_layer_norm_split_unsqueeze_19"),
    Rule(r"^triton_(?:red|per|mix)_fused\w*_mean\w*_rsqrt", "triton", "normalisation", "fused", "triton_red_fused_add_mean_mul_pow_rsqrt_0"),
    Rule(r"^triton_(?:red|per|mix)_fused\w*softmax", "triton", "softmax", "fused", "triton_per_fused__softmax_div_masked_fill_2"),
    Rule(r"^triton_(?:red|per|mix)_fused", "triton", "reduction", "fused", "triton_red_fused_add_mul_sum_1"),
    Rule(r"^triton_poi_fused\w*_(?:gelu|silu|relu|leaky_relu|elu|sigmoid|tanh|hardswish|hardtanh|mish|softplus|threshold_backward)(?=_|$)", "triton", "activation", "fused", "triton_poi_fused__unsafe_view_mul_silu_2"),
    Rule(r"^triton_poi_fused\w*(?:dropout|bernoulli|rand|native_dropout)(?=_|$)", "triton", "random", "fused", "triton_poi_fused_native_dropout_1"),
    Rule(r"^triton_poi_fused_(?:_to_copy|convert_element_type)_\d*$", "triton", "cast", "fused", "triton_poi_fused__to_copy_0"),
    Rule(r"^triton_poi_fused_(?:(?:_unsafe_view|_to_copy|addmm|as_strided|cat|clone|copy_?|constant_pad_nd|expand|fill|full|new_zeros|permute|repeat|roll|select|slice|split|split_with_sizes|squeeze|stack|t|transpose|unsqueeze|view|zeros|zeros_like)_)+\d*$", "triton", "copy", "fused", "triton_poi_fused__unsafe_view_clone_slice_transpose_11"),
    Rule(r"^triton_poi_fused\w*_(?:max_pool|avg_pool)", "triton", "pooling", "fused", "triton_poi_fused_max_pool2d_with_indices_4"),
    Rule(r"^triton_poi_fused\w*_(?:embedding|index|index_put|index_select|gather|scatter)(?=_|$)", "triton", "embedding", "fused", "triton_poi_fused_embedding_0"),
    Rule(r"^triton_poi_fused", "triton", "elementwise", "fused", "triton_poi_fused_add_mul_5"),
    Rule(r"^triton_(?!softmax|gemm)", "triton", None, None, "triton__0d1d2d3de"),
)  # fmt: skip

_XLA = (
    # XLA names a kernel after its last instruction, with a suffix for further ones: input_reduce_fusion_2
    Rule(r"^(?:gemm_fusion|triton_gemm|cublas_gemm|__cublas\$|cutlass_gemm_with_|__triton_gemm|nested_gemm_fusion)", "xla", "gemm", "triton", "gemm_fusion_dot_general_1.kd"),
    Rule(r"^__cudnn\$convBackwardInput", "xla", _DATA, "library call", "__cudnn$convBackwardInput"),
    Rule(r"^__cudnn\$convBackwardFilter", "xla", _WEIGHT, "library call", "__cudnn$convBackwardFilter"),
    Rule(r"^__cudnn\$conv|^cudnn-conv", "xla", _FORWARD, "library call", "__cudnn$convBiasActivationForward"),
    Rule(r"^__cudnn\$f?mha|^fmha-", "xla", "attention", "library call", "__cudnn$fmhaSoftmax"),
    Rule(r"^triton_softmax|^softmax_fusion", "xla", "softmax", "triton", "triton_softmax_3_0"),
    Rule(r"^(?:wrapped_|input_|loop_|horizontal_|copy_|\w+_)*(?:transpose)(?:_fusion)?(?:_\d+)*$", "xla", "layout", "fused", "wrapped_transpose"),
    Rule(r"^(?:input_|loop_|wrapped_|row_|column_|horizontal_input_)*(?:reduce|reduce_window|scan|argmax|argmin|sort|topk)(?:_\w+)?_fusion(?:_\d+)*$|^wrapped_(?:reduce|sort|scan|reduce_window)|^input_\w+_fusion(?:_\d+)*$", "xla", "reduction", "fused", "input_reduce_fusion.kd"),
    Rule(r"^(?:loop_|wrapped_)convert(?:_fusion)?(?:_\d+)*$", "xla", "cast", "fused", "loop_convert_fusion.kd"),
    Rule(r"^(?:loop_|wrapped_)?(?:tanh|logistic|maximum_tanh|relu)(?:_fusion)?(?:_\d+)*$", "xla", "activation", "fused", "loop_tanh_fusion"),
    Rule(r"^(?:loop_|wrapped_)?rng\w*(?:_fusion)?(?:_\d+)*$", "xla", "random", "fused", "loop_rng_bit_generator_fusion"),
    Rule(r"^(?:loop_|wrapped_|input_|dynamic_update_)*(?:gather|scatter|dynamic_gather)(?:_fusion)?(?:_\d+)*$", "xla", "embedding", "fused", "loop_gather_fusion"),
    Rule(r"^(?:loop_|wrapped_|input_|dynamic_)*(?:concatenate|copy|pad|slice|broadcast|iota|reverse|dynamic_slice|dynamic_update_slice|update_slice|bitcast|memset)(?:_\w+)?(?:_fusion)?(?:_\d+)*$", "xla", "copy", "fused", "loop_dynamic_update_slice_fusion_1"),
    Rule(r"^(?:loop_|wrapped_)\w+$|^(?:\w+_)?fusion(?:[._]\d+)*$", "xla", "elementwise", "fused", "loop_add_fusion_12"),
)  # fmt: skip

_CUDNN = (
    # what surrounds a convolution: other layouts, padding, offsets of its tiles
    Rule(r"(?i)nchw_?to_?nhwc|nhwc_?to_?nchw|nchw2nhwc|nhwc2nchw|nhwcToFoldedNhwc|foldedNhwcToNhwc|tensorTransformGeneric", "cudnn", "layout", "transposition of channels", "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(…"),
    Rule(r"cudnn\w*::.*AddPaddingKernel", "cudnn", "copy", "padding", "void cudnn::ops::nhwcAddPaddingKernel<__half, __half, float, true, (cudnnKernelDataType_t)0>(…"),
    Rule(r"im2col4d_kernel", "cudnn", "layout", "im2col", "void im2col4d_kernel<float, int>(im2col4d_params, cudnnConvolutionStruct, cudnnTensor4dStruct, …"),
    Rule(r"computeWgrad\w*OffsetsKernel", "cudnn", _WEIGHT, "offsets of an implicit gemm", "cudnn::maxwell::gemm::computeWgradOffsetsKernel(cudnn::maxwell::gemm::ComputeOffsetsParams)"),
    Rule(r"compute\w*OffsetsKernel", "cudnn", _FORWARD, "offsets of an implicit gemm", "void cask_cudnn::computeOffsetsKernel<false, false>(cask_cudnn::ComputeOffsetsParams)"),
    Rule(r"(?:cudnn|cask)\w*::.*(?:setTensor|setOutput|fillKernel)", "cudnn", "copy", "fill", "void cudnn::maxwell::gemm::setOutputKernel<float>(int, float*, float)"),
    Rule(r"^setTensor\w*_kernel", "cudnn", "copy", "fill", "void setTensor4d_kernel<float, float, 16, 16>(cudnnTensor4dStruct, float*, float)"),
    Rule(r"convertTensor\w*_kernel", "cudnn", "cast", None, "void cudnn::ops::convertTensor_kernel<float, __half, float, (cudnnKernelDataType_t)0>(float, …"),
    # gradients before what could be either
    Rule(r"winograd\w*[Ww]grad|Wgrad\w*(?:Data|Delta|Output)\d", "cudnn", _WEIGHT, "winograd", "void cudnn::winograd_nonfused::winogradWgradDelta4x4<float, float>(…"),
    Rule(r"generateWinograd|cudnn::winograd|scudnn_winograd|[hs]cudnn\w*_winograd|winograd_\dx\d_kernel|cudnn\w*winograd", "cudnn", _FORWARD, "winograd", "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"),
    Rule(r"fft[12]d_[rc]2[rc]_|flip_filter|DSE::.*fft|cudnn\w*_g?cgemm_", "cudnn", _FORWARD, "fft", "void fft2d_r2c_32x32<float, false, 1u, false>(float2*, float const*, …"),
    Rule(r"wgrad2d|wgrad_alg|wgrad_engine|cudnn_wgrad|conv\w*_wgrad_kernel|first_layer_wgrad|_wgrad_(?:grouped|direct|c1)", "cudnn", _WEIGHT, "direct", "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int, …"),
    Rule(r"dgrad2d|dgrad_alg|dgrad_engine|cudnn_dgrad", "cudnn", _DATA, "direct", "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*, …"),
    Rule(r"xmma_(?:sparse_)?wgrad|cudnn\w*wgrad|(?:wgrad)_(?:optimized|analytic|indexed)", "cudnn", _WEIGHT, "implicit gemm", "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn"),
    Rule(r"xmma_(?:sparse_)?(?:dgrad|deconv)|cudnn\w*dgrad|(?:dgrad)_(?:optimized|analytic|indexed|unity)", "cudnn", _DATA, "implicit gemm", "sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn"),
    Rule(r"xmma_(?:sparse_)?(?:fprop|conv)|fprop_(?:optimized|analytic|indexed|few_channels|fixed_channels)|cudnn\w*fprop", "cudnn", _FORWARD, "implicit gemm", "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_alignc4_execute_kernel_cudnn"),
    # as observed: stridedB computes gradients, with splitK the weights', the rest is forward
    Rule(r"cudnn_\w*stridedB_splitK|cudnn_\w*_splitK_stridedB", "cudnn", _WEIGHT, "implicit gemm", "volta_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1"),
    Rule(r"cudnn_\w*stridedB", "cudnn", _DATA, "implicit gemm", "volta_scudnn_128x64_stridedB_interior_nn_v1"),
    Rule(r"implicit_(?:pre)?conv|precomputed_convolve|cudnn_convolve|implicit_convolve", "cudnn", _FORWARD, "implicit gemm", "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, true, true>(int, …"),
    Rule(r"explicit_convolve", "cudnn", _FORWARD, "explicit gemm", "void explicit_convolve_sgemm<float, int, 1024, 5, 5, 3, 3, 3, 0, false>(int, …"),
    Rule(r"(?:^|_)[a-z]*\d*cudnn_(?:int8x?\d*_|infer_)?\d+x\d+|cudnn_(?:ampere|volta|turing|maxwell)", "cudnn", _FORWARD, "implicit gemm", "maxwell_scudnn_128x32_small_nn"),
    Rule(r"cudnn\w*::.*conv2d_grouped_direct|conv_2d_(?:grouped|direct)|conv2d_c1_k1|first_layer_fwd|cudnn::cnn::conv", "cudnn", _FORWARD, "direct", "void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, false, false, 0, 0, int, float, float, float, …"),
    Rule(r"bn_(?:fw|bw)_|bnorm|batchnorm_(?:fwd|bwd)|nhwc_batch_norm|cudnn\w*::.*norm", "cudnn", "normalisation", "batch", "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnnTensorStruct, …"),
    Rule(r"(?i:lrn_?(?:fw|bw|forward|backward))|\blrn\w*Kernel|LRN\w*_kernel|kernel_lrn", "cudnn", "normalisation", "local response", "void cudnn::detail::lrnForward_evenC<1, float, float>(cudnn::detail::LrnForwardParams<float, float>)"),
    Rule(r"pooling_(?:fw|bw)_|pooling_(?:fwd|bwd)", "cudnn", "pooling", None, "void cudnn::detail::pooling_fw_4d_kernel<float, float, cudnn::detail::maxpooling_func<float, …"),
    Rule(r"activation_(?:fw|bw)_", "cudnn", "activation", None, "void cudnn::detail::activation_fw_4d_kernel<float, float, 128, 1, 4, cudnn::detail::tanh_func<float>>(…"),
    Rule(r"softmax_(?:fw|bw)_(?:small_)?kernel|cudnn\w*::.*softmax", "cudnn", "softmax", None, "void cudnn::ops::softmax_fw_kernel<1, float, float, 256, 1, 0, 0>(…"),
    Rule(r"RNN_blockPersist|[Pp]ersistent?(?:RNN|Lstm|LSTM|GRU)|elemWiseRNNcell|(?:LSTM|GRU|RNN|lstm|gru)_?elementWise|cudnn\w*::rnn|rnn_persist|elementWise_(?:fp|bp|lstm|gru)", "cudnn", "recurrent", None, "void RNN_blockPersist_fp_LSTM_HMMA<__half, __half, float, 1, 128>(const …"),
    Rule(r"\bdropout_(?:fp|bp)\b|cudnn\w*::.*dropout", "cudnn", "random", "dropout", "void dropout_fp<float, float, float, 0, true>(…"),
    Rule(r"calc_bias_diff", "cudnn", "reduction", "bias gradient", "void calc_bias_diff<2, float, float, 128, 0>(cudnnTensorStruct, float const*, …"),
    Rule(r"add_tensor_kernel|op_(?:generic_)?tensor(?:4d)?_kernel|op_tensor|scalePackedTensor|scaleTensor|cudnn\w*::.*OpTensor", "cudnn", "elementwise", None, "void cudnn::ops::scalePackedTensor_kernel<float, float>(cudnnTensor4dStruct, float*, float)"),
    Rule(r"reduced_divisor.*reduce|cudnn\w*::.*reduce", "cudnn", "reduction", None, "void cudnn::reduction::reduce_range_smem<512, …"),
    Rule(r"\bcudnn\w*::|^cudnn_|cask_cudnn", "cudnn", None, None, "void cudnn::ops::some_later_kernel<float>(float*)"),
)  # fmt: skip

_BLAS = (
    Rule(r"[Ss]plit_?[Kk]_?[Rr]educe", "cublas", "gemm", "split-k reduction", "void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>, …"),
    Rule(r"^nvjet_", "cublas", "gemm", "persistent", "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN"),
    Rule(r"xmma_gemm\w*split_?k", "cublas", "gemm", "split-k", "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_split_k_kernel__5x_cublas"),
    Rule(r"xmma_gemm", "cublas", "gemm", None, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"),
    Rule(r"cutlass\w*[0-9]dgrad|cutlass::.*Dgrad", "cutlass", _DATA, "implicit gemm", "cutlass3x_sm90_tensorop_s64x128x16dgrad_f16_128x128x64_2x1x1_0_nhwc_align8"),
    Rule(r"cutlass\w*[0-9]wgrad|cutlass::.*Wgrad", "cutlass", _WEIGHT, "implicit gemm", "cutlass3x_sm90_tensorop_s64x128x16wgrad_f16_128x128x64_2x1x1_0_nhwc_align8"),
    Rule(r"cutlass\w*[0-9]fprop", "cutlass", _FORWARD, "implicit gemm", "cutlass3x_sm90_tensorop_s64x128x16fprop_f16_128x128x64_2x1x1_0_nhwc_align8"),
    Rule(r"cutlass\w*[sdhicgz]\d+x?\d*x?\d*\w*gemm|cutlass_\d+_\w*gemm|cutlass3x_\w+", "cutlass", "gemm", None, "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(…"),
    Rule(r"cutlass::.*(?:[Cc]onv|Fprop)", "cutlass", _FORWARD, "implicit gemm", "void cutlass::Kernel<cutlass::conv::kernel::ImplicitGemmConvolution<cutlass::conv::threadblock::ImplicitGemmMultistage<…"),
    Rule(r"cutlass::(?:\w+::)*ReduceSplitK|cutlass::reduction", "cutlass", "gemm", "split-k reduction", "void cutlass::Kernel<cutlass::reduction::kernel::ReduceSplitK<cutlass::MatrixShape<4, 128>, float, …"),
    # CUTLASS's general entry points: nearly all of its kernels are products, and shortened names keep no more
    Rule(r"cutlass::(?:device_)?[Kk]ernel\d?\b|cutlass::gemm|^(?:\w+/)?Kernel2?$", "cutlass", "gemm", None, "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, …"),
    Rule(r"(?:^|_)(?:volta|turing|ampere|hopper|maxwell|pascal|kepler|sm\d+)_?\w*(?:gemm)", "cublas", "gemm", None, "ampere_sgemm_128x64_tn"),
    Rule(r"^[sdhcz]gemm_|^[csdzh]gemm\w*_sm\d+|^g?cgemm_|sgemm_largek|fermiPlus[CSDZ]gemm|magma_\w*gemm|gemm_kernel1x1_core|^gemm_kernel2x2|kepler_gemm", "cublas", "gemm", None, "sgemm_sm35_ldg_nn_64x16x64x16x16"),
    Rule(r"gemmSN_|gemmk1_kernel|gemm_SN|cublas\w*Gemm\w*(?:Params|SmallN)", "cublas", "gemm", "small dimension", "void gemmSN_NN_kernel<float, 128, 2, 4, 8, 4, 4, cublasGemvTensorStridedBatched<const float>, …"),
    Rule(r"\bgemv(?:NSP|\dT|\dN|x|NT|T|N)?|gemvx::kernel|cublasGemv\w*Params|internal::gemv|gemv_", "cublas", "gemm", "gemv", "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, …"),
    Rule(r"compute_gemm_pointers", "cublas", "gemm", "pointers of a batch", "compute_gemm_pointers(float2**, float2 const*, int, float2 const*, int, float2 const*, int, int)"),
    Rule(r"\bdot_kernel<.*cublas", "cublas", "gemm", "dot product", "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, cublasGemvTensorStridedBatched<float>>>(…"),
    Rule(r"reduce_1Block_kernel|\b(?:asum|nrm2|iamax|iamin)_kernel", "cublas", "reduction", None, "void reduce_1Block_kernel<float, 128, 7, cublasGemvTensorStridedBatched<float>, …"),
    Rule(r"cublasLtEpilogue_t|epilogue::impl::globalKernel", "cublas", "elementwise", "epilogue", "void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, cublasLtEpilogue_t, …"),
    Rule(r"scal_kernel<.*cublas|\b(?:axpy|scal)_kernel(?:_val)?<.*cublas", "cublas", "elementwise", None, "void scal_kernel<float, float, 1, false, 6, 5, 5, 3>(cublasTransposeParams<float>, …"),
    Rule(r"transpose_readWrite|cublasTransposeParams|geam_kernel", "cublas", "layout", "transposition", "void transpose_readWrite_alignment_kernel<float2, float2, 1, false, 6, 4, 4>(cublasTransposeParams<float2>, …"),
    Rule(r"\bcublas\w*::", "cublas", None, None, "void cublasLt::some_later_kernel<float>(float*)"),
    Rule(r"^(?:vector|regular|composite)_fft|^(?:void )?(?:multi_bluestein|real_postprocess)|cufft", "cufft", "elementwise", "fft", "void vector_fft<256u, 8u, 8u, (padding_t)0, (twiddle_t)0, (loadstore_modifier_t)2, …"),
    Rule(r"cusparse::|csrmm|spmm_", "cusparse", "gemm", "sparse", "void cusparse::csrmm_alg2_kernel<cusparse::CsrMMPolicy<256>, true, …"),
    Rule(r"Marlin<|marlin(?:_moe)?::|gptq\w*gemm|awq_gemm|gemm_half_q_half|machete", "vllm", "gemm", "dequantised weights", "void marlin::Marlin<__half, vllm::kU4B8, 256, 4, 16, 4, 4, 8, false>(int4 const*, …"),
    Rule(r"^bmm_\w*(?:_TN_|_t\d+x\d+x\d+)|^gemm_\w*_sm\d+[af]?$", "tensorrt-llm", "gemm", None, "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_schedP2x1x2x3_biasM_bN_tmaOpt_clmp_dynBatch_sm100f"),
    Rule(r"deep_gemm::", "deepgemm", "gemm", "persistent", "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 112u, 128u, 1u, 4u, 1u, …"),
)  # fmt: skip

_ROCM = (
    Rule(r"Cijk_.*_UserArgs_", "hipblaslt", "gemm", "tensile", "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT16x16x256_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1_CADS0_DTVA0"),
    Rule(r"Cijk_", "tensile", "gemm", "tensile", "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"),
    Rule(r"rocblas_gemv|rocblas_\w*dot", "rocblas", "gemm", "gemv", "void rocblas_gemvn_kernel<64, 4, int, float const*, float const*, float*>(…"),
    Rule(r"rocblas_gemm|rocblas::.*gemm", "rocblas", "gemm", None, "void rocblas_gemm_batched_general_kernel<float, 16, 16, 32, 32, 8, 32, 8, 8, 32, 'N', 'T', float const*, …"),
    Rule(r"^batched_transpose_|^transpose_(?:NCHW|CNHW|NHWC|\w+)2|^MIOpen\w*[Tt]ranspose|SubTensorOpWithTransform", "miopen", "layout", "transposition", "batched_transpose_32x32_half"),
    Rule(r"^Im2d?2?Col|^Im3d2Col|^Col2Im|^im2col_", "miopen", "layout", "im2col", "Im2d2Col_v2"),
    Rule(r"^SubTensorOpWithCast", "miopen", "cast", None, "SubTensorOpWithCastTensor1d"),
    Rule(r"^SubTensorOpWith", "miopen", "copy", "fill", "SubTensorOpWithScalar1d"),
    Rule(r"igemm_bwd_gtc", "miopen", _DATA, "implicit gemm", "igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x2x1_1x4x1x64_tb1x8x1x2_1x4x1x64_mh_gkgs"),
    Rule(r"igemm_wrw_gtc", "miopen", _WEIGHT, "implicit gemm", "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x64_wt32x32x8_ws1x1_wr1x1_ta1x4x1x4_1x16x1x16_tb1x4x1x4_1x16x1x16_gkgs"),
    Rule(r"igemm_fwd_gtc|^igemm_", "miopen", _FORWARD, "implicit gemm", "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32_wt32x32x8_ws1x1_wr2x1_ta1x8x1x1_1x4x1x64_tb1x8x2x1_1x4x1x64_gkgs"),
    Rule(r"gridwise_convolution_backward_data|gridwise_convolution\w*_bwd_data", "miopen", _DATA, "implicit gemm", "gridwise_convolution_backward_data_implicit_gemm_v4r1_nchw_kcyx_nkhw"),
    Rule(r"gridwise_convolution_backward_weights|gridwise_convolution\w*_(?:wrw|bwd_weight)", "miopen", _WEIGHT, "implicit gemm", "gridwise_convolution_backward_weights_implicit_gemm_v4r1_nchw_kcyx_nkhw"),
    Rule(r"gridwise_(?:group_)?convolution", "miopen", _FORWARD, "implicit gemm", "gridwise_convolution_implicit_gemm_v4r1_nchw_kcyx_nkhw_lds_double_buffer"),
    Rule(r"^naive_conv\w*_bwd", "miopen", _DATA, "direct", "naive_conv_ab_nonpacked_bwd_nchw_float_double_float"),
    Rule(r"^naive_conv\w*_wrw", "miopen", _WEIGHT, "direct", "naive_conv_ab_nonpacked_wrw_nchw_float_double_float"),
    Rule(r"^naive_conv", "miopen", _FORWARD, "direct", "naive_conv_ab_nonpacked_fwd_nchw_float_double_float"),
    Rule(r"^miopen(?:Sp3AsmConv|Winograd)\w*wrw|^miopenWinogradWrw|winograd\w*wrw", "miopen", _WEIGHT, "winograd", "miopenSp3AsmConv_v21_1_3_gfx9_fp32_f3x2_dilation2_wrw"),
    Rule(r"^miopenSp3AsmConv|^miopenWinograd|^xform_(?:data|filter|out)", "miopen", _FORWARD, "winograd", "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1"),
    Rule(r"(?i)^miopen\w*conv\w*(?:wrw|bwd_?weight)|^MIOpenCvBwdWrW", "miopen", _WEIGHT, "direct", "miopenGcnAsmConv1x1WrW"),
    Rule(r"(?i)^miopen\w*conv\w*bwd", "miopen", _DATA, "direct", "MIOpenConvBwdD"),
    Rule(r"(?i)^miopen\w*conv|^MIOpenCvFwd|^miopenGcnAsm", "miopen", _FORWARD, "direct", "MIOpenConvUni"),
    Rule(r"^MIOpen\w*(?:BatchNorm|LayerNorm|LRN|GroupNorm)|^(?:Layernorm|Groupnorm|BatchNorm)\w*(?:Contiguous|Fwd|Bwd)", "miopen", "normalisation", None, "MIOpenBatchNormFwdTrainSpatialNorm"),
    Rule(r"^mloPooling|^MIOpen\w*Pool", "miopen", "pooling", None, "mloPoolingG"),
    Rule(r"^MIOpen(?:Neuron|Active)", "miopen", "activation", None, "MIOpenNeuronFwd"),
    Rule(r"^(?:Log)?Softmax(?:Forward|Backward|AccurateFwd\w*)$|^MIOpen\w*[Ss]oftmax", "miopen", "softmax", None, "SoftmaxForward"),
    Rule(r"^MIOpen\w*(?:RNN|LSTM|GRU)|^LSTM(?:Fwd|Bwd)Hid|^GRU(?:Fwd|Bwd)Hid", "miopen", "recurrent", None, "LSTMFwdHidUpdate"),
    Rule(r"^MIOpen\w*Dropout|^(?:Dropout(?:Forward|Backward)|InitKernelState)", "miopen", "random", "dropout", "DropoutForward"),
    Rule(r"^Op\dd?Tensor\w*|^OpTensor\w*|^MIOpen(?:Bias|UnaryTensor)", "miopen", "elementwise", None, "Op1dTensorGeneric"),
    Rule(r"^MIOpen\w*Reduce|^gridwise_generic_reduce", "miopen", "reduction", None, "gridwise_generic_reduce_1"),
    Rule(r"^(?:MIOpen|miopen)", "miopen", None, None, "MIOpenSomeLaterKernel"),
    Rule(r"\bck(?:_tile)?::.*conv\w*_bwd_data|\bck::.*[Cc]onvBwdData|kernel_\w*_bwd_data", "ck", _DATA, "implicit gemm", "void ck::tensor_operation::device::(anonymous namespace)::kernel_grouped_conv_bwd_data_multiple_d_xdl_cshuffle<…"),
    Rule(r"\bck(?:_tile)?::.*(?:bwd_weight|BwdWeight)", "ck", _WEIGHT, "implicit gemm", "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_weightILi64EttftE"),
    Rule(r"\bck(?:_tile)?::.*(?:conv_fwd|conv2d|ConvolutionForward|ConvFwd)", "ck", _FORWARD, "implicit gemm", "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_cshuffle_v3IttfttE"),
    Rule(r"\bck(?:_tile)?::.*(?i:norm)", "ck", "normalisation", None, "void ck_tile::kentry<1024, 2, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdPipelineOnePass<…"),
    Rule(r"\bck(?:_tile)?::.*(?:moe_sorting|MoeSorting)", "ck", "reduction", "sort", "void ck_tile::kentry<256, 1, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int, float, 4, …"),
    Rule(r"\bck(?:_tile)?::.*(?:[Gg]emm|moe)", "ck", "gemm", None, "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor, …"),
    Rule(r"\bck(?:_tile)?::.*(?i:softmax)", "ck", "softmax", None, "void ck::kernel_softmax<ck::GridwiseSoftmax_mk_to_mk<float, float, float, …"),
    Rule(r"\bck(?:_tile)?::.*(?i:reduc)", "ck", "reduction", None, "void ck::kernel_reduce_multiblock<ck::GridwiseReduction_mk_to_m_multiblock<float, …"),
    Rule(r"\bck(?:_tile)?::.*(?i:elementwise|permute)", "ck", "elementwise", None, "void ck::kernel_elementwise<ck::GridwiseElementwise<…"),
    Rule(r"aiter::.*(?:gemm|moe|flatmm)|^(?:fmoe|flatmm|a8w8|f4gemm|bf16gemm)_", "aiter", "gemm", None, "void aiter::fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_ps_32x512(…"),
    Rule(r"\b__amd_rocclr_copy", "hip", "copy", None, "__amd_rocclr_copyBuffer.kd"),
    Rule(r"\b__amd_rocclr_", "hip", "copy", "fill", "__amd_rocclr_fillBufferAligned"),
)  # fmt: skip

# kernels of language-model servers, embedding tables and fused layers, mostly one operation each and named after it
_LIBRARIES = (
    Rule(r"multi_tensor_apply_kernel<.*(?:L2Norm|MaxNorm|Norm)Functor", None, "reduction", "foreach", "void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float>, float*, float*, bool, int>(…"),
    Rule(r"multi_tensor_apply_kernel<.*(?i:adam|sgd|lamb|adagrad|novograd|lars)", None, "optimizer", "multi-tensor", "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, float, float, float, …"),
    Rule(r"multi_tensor_apply_kernel<.*(?:Copy|ZeroFunctor)", "aten", "copy", "multi-tensor", "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::TensorListMetadata<(int)2>, at::native::<unnamed>::UnaryOpFunctor<long, (int)2, (int)1, (int)1>, at::native::Copy<long, long>>(T1, T2, T3...)"),
    # lists of tensors are what optimizers update
    Rule(r"multi_tensor_apply_kernel", "aten", "optimizer", "multi-tensor", "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, …"),
    Rule(r"split_embedding\w*backward", "fbgemm", "embedding", "table update", "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<c10::Half, float, …"),
    Rule(r"split_embedding|fbgemm_gpu::.*embedding|bounds_check_indices|linearize_index|permute_pooled_embs|recat_copy_async|to_dense_representation", "fbgemm", "embedding", None, "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, long, 5ul>(…"),
    Rule(r"fbgemm_gpu::.*(?i:quantize|to_float|fp8|hfp8|to_bf)", "fbgemm", "cast", "quantisation", "void fbgemm_gpu::(anonymous namespace)::_compute_FP8_quantize_cuda_kernel<float>(float const*, …"),
    Rule(r"fbgemm_gpu::.*(?:permute|bucketize|offsets_range|jagged|expand|segment|keyed)", "fbgemm", "embedding", "indices", "void fbgemm_gpu::permute_2D_data_kernel<false, int, int, float>(int, int, …"),
    Rule(r"rotary|apply_rope|RotaryPos|rope_kernel|ApplyRotary|_rope_", None, "elementwise", "rotary embedding", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, …"),
    Rule(r"reshape_and_cache|concat_and_cache|copy_blocks_kernel|AppendPagedKVCache|swap_blocks|gather_cache", "vllm", "copy", "key-value cache", "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(…"),
    Rule(r"_copy_page_indices_kernel", "vllm", "copy", "key-value cache", "_copy_page_indices_kernel"),
    Rule(r"act_and_mul|silu_and_mul|gelu_and_mul|swiglu|geglu|silu_mul", None, "activation", "gated", "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(…"),
    Rule(r"(?i)(?:quantize|quant_kernel|_quant_|cvt_fp\w*_to|dequant|scaled_fp8|cast_transpose|cast_to_)", None, "cast", "quantisation", "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(c10::Float8_e4m3fn*, …"),
    Rule(r"(?i)(?:rms_?norm|layer_?norm|group_?norm|\bln_(?:fwd|bwd)_|_norm_(?:fwd|bwd)|LayerNorm|skip_norm)(?!.*at::native)", None, "normalisation", None, "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*, long, …"),
    Rule(r"moe::dev::finalize|moe_sum|finalizeMoeRouting|moe_unpermute", None, "reduction", "experts' outputs", "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t, …"),
    Rule(r"moe::dev::routing|moe_align|topk_?[Gg]ating|topkGatingSoftmax|grouped_topk|moe_sorting|count_and_sort_expert", None, "reduction", "experts' routing", "void moe::dev::routing::routingIndicesHistogramKernel<moe::dev::routing::routingRenormalize::KernelParams<…"),
    Rule(r"moe_permute|expandInputRows|moe_gather|shuffle_rows", None, "embedding", "experts' inputs", "void expandInputRowsKernel<__nv_bfloat16, __nv_bfloat16, …"),
    Rule(r"fused_moe_kernel|moe_\w*gemm|grouped_gemm", None, "gemm", "experts", "fused_moe_kernel"),
    Rule(r"(?i)flashinfer::sampling|TopPSampling|TopKSampling|sample_recovered_tokens", "flashinfer", "random", "sampling", "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, (cub::BlockScanAlgorithm)2, …"),
    Rule(r"scaled_(?:upper_triang_)?(?:aligned_)?(?:causal_)?masked_softmax|scaled_softmax", None, "softmax", "scaled and masked", "void scaled_upper_triang_masked_softmax_warp_forward<__half, __half, float, 10>(__half*, …"),
    Rule(r"(?:cub|rocprim|hipcub|thrust)\b.*(?:[Rr]adix_?[Ss]ort|[Mm]erge_?[Ss]ort|onesweep|block_sort|sort_config|SegmentedSort|histogram|Histogram)", "cub", "reduction", "sort", "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, …"),
    Rule(r"(?:cub|rocprim|hipcub|thrust)\b.*(?:[Pp]artition|[Ss]elect(?:If|Sweep|_if|_flag)|[Cc]ompact|unique|Unique|copy_if)", "cub", "copy", "selection", "void cub::DeviceCompactInitKernel<cub::ReduceByKeyScanTileState<int, int, true>, int*>(…"),
    Rule(r"(?:cub|rocprim|hipcub|thrust)\b.*(?:[Ss]can|lookback)", "cub", "reduction", "scan", "void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int, (cub::BlockLoadAlgorithm)3, …"),
    Rule(r"(?:cub|rocprim|hipcub)::.*(?i:reduce|RunLength)|thrust::.*[Rr]educe", "cub", "reduction", None, "void cub::DeviceReduceSingleTileKernel<cub::DeviceReducePolicy<float, unsigned int, cub::Sum>::Policy600, …"),
    Rule(r"thrust::.*(?:fill|generate|tabulate|uninitialized)", "thrust", "copy", "fill", "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__uninitialized_fill::functor<…"),
    Rule(r"thrust::|rocprim::|\bcub::", "thrust", "elementwise", "for each", "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__transform::unary_transform_f<…"),
    Rule(r"^(?:gen_sequenced|generate_seed_pseudo|gen_?kernel|curand|rocrand)|rocrand_impl::|generateRandom", "curand", "random", None, "void gen_sequenced<curandStateXORWOW, float, int, &float curand_uniform_noargs<curandStateXORWOW>(…"),
)  # fmt: skip

_ATEN = (
    Rule(r"cunn_\w*SoftMax|softmax_warp_(?:for|back)ward|at::native::.*(?i:softmax)", "aten", "softmax", None, "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(float*, float const*, …"),
    Rule(r"nll_loss|ClassNLLCriterion|NLLCriterion", "aten", "reduction", "loss", "_Z42cunn_ClassNLLCriterion_updateOutput_kernelIffEvPT_S1_S1_PlS1_iiiil"),
    Rule(r"at::native::.*conv_depthwise\dd_backward|at::native::.*DepthwiseConv\w*Backward", "aten", _DATA, "depthwise", "void at::native::(anonymous namespace)::conv_depthwise2d_backward_kernel<3, 1, float, int>(…"),
    Rule(r"at::native::.*conv_depthwise\dd_grad_weight", "aten", _WEIGHT, "depthwise", "void at::native::(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, int>(…"),
    Rule(r"at::native::.*conv_depthwise\dd|at::native::.*depthwise", "aten", _FORWARD, "depthwise", "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(…"),
    Rule(r"at::native::.*(?:im2col|col2im|vol2col|col2vol)", "aten", "layout", "im2col", "void at::native::im2col_kernel<float>(long, float const*, long, long, long, …"),
    Rule(r"at::native::.*(?:batch_norm|layer_norm|LayerNorm|GroupNorm|group_norm|GammaBetaBackward|RowwiseMoments|ComputeInternalGradients|ComputeGradientFusedParams|ComputeFusedParams|ComputeBackwardFusedParams|weight_norm|rms_norm|instance_norm|cuComputeGrad|cuComputePart)", "aten", "normalisation", None, "void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, float, float, float, int>(…"),
    Rule(r"(?:GammaBetaBackward|RowwiseMoments|ComputeGradientFusedParams|cuApplyLayerNorm|cuComputeGradInput|cuComputePartGradGammaBeta|welford_kernel|batchnorm_(?:forward|backward)|reduce_bn)", None, "normalisation", None, "void cuComputePartGradGammaBeta<float, float, float>(float const*, float const*, int, int, float const*, …"),
    Rule(r"at::native::.*(?i:max_?pool|avg_?pool|average_?(?:pool|gradinput)|MaxPool)", "aten", "pooling", None, "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*, long, …"),
    Rule(r"at::native::.*(?:lstm_cell|gru_cell)", "aten", "recurrent", None, "void at::native::(anonymous namespace)::kernel::lstm_cell_forward<float, float, int, 1>(…"),
    Rule(r"at::native::.*(?:distribution_elementwise|distribution_nullary|fused_dropout|[^_]dropout_kernel|philox|curand|bernoulli|multinomial|Multinomial|randperm|random_|uniform_and_transform|normal_and_transform)", "aten", "random", None, "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(…"),
    Rule(r"at::native::.*(?:index_\w|indexFunc|gpu_index_kernel|gather|scatter|embedding|Embedding|compute_grad_weight|krn_partial|indexing_backward|take_put|segment_reduce|masked_select)|index(?:Select|Func)(?:Large|Small)Index|(?:^|/)index_elementwise_kernel|_scatter_gather_elementwise|(?:^|/)vectorized_gather_kernel", "aten", "embedding", "indexing", "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl<…"),
    Rule(r"CatArrayBatchedCopy|split_with_sizes_copy|chunk_cat", "aten", "copy", "concatenation", "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*, …"),
    Rule(r"float\w*_copy_kernel_cuda|direct_copy_kernel_cuda.*(?:LoadWithCast|StoreWithCast)|manual_unroll<.*gpu_kernel_impl<.*direct_copy_kernel_cuda|float8_copy", "aten", "cast", None, "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, …"),
    Rule(r"direct_copy_kernel|copy_device_to_device|at::native::.*(?:copy_kernel|clone_kernel|roll_cuda|flip_kernel|reflection_pad|replication_pad|constant_pad|batched_copy|repeat_interleave|compute_cuda_kernel|triu_tril)", "aten", "copy", None, "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}…"),
    Rule(r"FillFunctor|fill_kernel_cuda|at::native::.*(?:arange|linspace|logspace|range_cuda|eye_kernel)", "aten", "copy", "fill", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, …"),
    Rule(r"at::native::.*(?i:silu|gelu|(?<!p)relu|elu_|sigmoid|tanh|threshold_kernel|hardswish|hardsigmoid|softplus|mish|prelu|hardshrink|softshrink|glu_kernel)", "aten", "activation", None, "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}…"),
    Rule(r"at::native::.*reduce_kernel|(?:^|/)reduce_kernel\b|kernelReduce(?:All|Contig|Noncontig)", "aten", "reduction", None, "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >(…"),
    Rule(r"at::native::.*(?:scan_outer|scan_innermost|_scan|cumsum|sort|Sort|[tT]op_?K|topk|computeBlock\w*Counts|[Hh]istogram|searchsorted|unique|kthvalue|compute_mode|norm_cleanup|gatherMedian|cross_kernel|reduce|cdist)", "aten", "reduction", None, "void at::native::(anonymous namespace)::searchsorted_cuda_kernel<float, long>(long*, float const*, …"),
    Rule(r"at::native::.*(?:upsample|grid_sampler|interp)", "aten", "elementwise", "interpolation", "void at::native::(anonymous namespace)::upsample_nearest2d_out_frame<c10::BFloat16, &at::native::nearest_neighbor_compute_source_index>(…"),
    Rule(r"(?:^|/|at::native::.*)\w*elementwise_kernel|kernelPointwiseApply", "aten", "elementwise", None, "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char *, 3>>(int, …"),
    Rule(r"\bat::native::|\bat::cuda::|\bat::", "aten", None, None, "void at::native::some_later_kernel<float>(float*)"),
)  # fmt: skip

_TENSORFLOW = (
    Rule(r"SwapDimension\dAnd\dInTensor3|ShuffleInTensor3|TransposeKernel<|TransposeSimple", "tensorflow", "layout", "transposition", "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<float, 32>(float const*, …"),
    Rule(r"tensorflow::.*(?:PadInputCustomKernel|concat_(?:fixed|variable)|SplitOpKernel|split_v_kernel|ReverseV2|StridedSlice|TileKernel|SetZero|SetToValue|SetOne)|^(?:concat_(?:fixed|variable)_kernel|SplitOpKernel|SetZero|SetToValue)", "tensorflow", "copy", None, "void tensorflow::functor::PadInputCustomKernelNHWC<float, 4>(int, float const*, tensorflow::functor::Dimension<4>, …"),
    Rule(r"\bBiasN(?:HW|CH)W?C?W?Kernel", "tensorflow", "elementwise", "bias", "void tensorflow::BiasNHWCKernel<float>(int, float const*, float const , tensorflow::BiasNHWCKernel<float>*, int)"),
    Rule(r"\bBiasGradN(?:HWC|CHW)", "tensorflow", "reduction", "bias gradient", "void tensorflow::BiasGradNHWC_SharedAtomics<float>(int, float const*, tensorflow::BiasGradNHWC_SharedAtomics<float>*, int)"),
    Rule(r"\b(?:Max|Ave|Avg)Pool(?:Forward|Backward|Grad)", "tensorflow", "pooling", None, "void tensorflow::(anonymous namespace)::MaxPoolForwardNHWC<float>(int, float const*, int, int, int, …"),
    Rule(r"FillPhiloxRandom|tensorflow::random::|StatelessRandom", "tensorflow", "random", None, "_ZN10tensorflow7functor28FillPhiloxRandomKernelLaunchINS_6random27TruncatedNormalDistributionIfEEEEvS5_"),
    Rule(r"DepthwiseConv2dBackpropInput", "tensorflow", _DATA, "depthwise", "void tensorflow::DepthwiseConv2dBackpropInputGPUKernelNHWC<float, 3, 3, 1>(…"),
    Rule(r"DepthwiseConv2dBackpropFilter", "tensorflow", _WEIGHT, "depthwise", "void tensorflow::DepthwiseConv2dBackpropFilterGPUKernelNHWC<float, 3, 3, 1, float>(…"),
    Rule(r"DepthwiseConv2dGPUKernel", "tensorflow", _FORWARD, "depthwise", "void tensorflow::DepthwiseConv2dGPUKernelNHWCSmall<float, (DepthwiseConv2dDirection)0, 3, 3, 2, false, float>(…"),
    Rule(r"GatherOpKernel|GatherSliceOp|ScatterOp|ScatterNd|(?:Uns|S)ortedSegment|OneHotKernel|SparseTensorDenseMatMul|GatherNd", "tensorflow", "embedding", None, "void tensorflow::GatherOpKernel<float, int, true>(float const*, int const*, float*, long, long, long, long)"),
    Rule(r"tensorflow::.*(?:FusedBatchNorm|LayerNorm|LRN|Lrn)", "tensorflow", "normalisation", None, "void tensorflow::functor::FusedBatchNormInferenceMetaKernel<float, float, (tensorflow::TensorFormat)0, …"),
    Rule(r"GenerateNormalizedProb|tensorflow::.*[Ss]oftmax|SoftmaxOp|MaxSubSum", "tensorflow", "softmax", None, "void tensorflow::(anonymous namespace)::GenerateNormalizedProb<float, float, 4>(float const*, …"),
    Rule(r"tensorflow::.*(?:lstm|Lstm|gru_|GRU)", "tensorflow", "recurrent", None, "void tensorflow::functor::(anonymous namespace)::lstm_gates<float, true, (tensorflow::functor::GateLayout)0>(…"),
    Rule(r"tensorflow::.*(?:Apply(?:Adam|GradientDescent|Momentum|Adagrad|RMSProp|Ftrl|Ada)|KerasMomentum)", "tensorflow", "optimizer", None, "void tensorflow::(anonymous namespace)::SparseApplyAdagradKernel<float, int, true>(…"),
    Rule(r"tensorflow::.*(?:Relu|Selu|Elu|Gelu|Sigmoid|Tanh)", "tensorflow", "activation", None, "void tensorflow::functor::Relu_int8x4_kernel(int, int const*, int*)"),
    Rule(r"(?:tensorflow::)?functor::(?:Row|Column|Block|Segmented)\w*Reduce|tensorflow::.*(?:Reduce|CleanupSegments|NMS|TopK|InTopK|Bincount|Where)", "tensorflow", "reduction", None, "void tensorflow::functor::RowReduceKernel<float*, float*, tensorflow::functor::Sum<float>>(…"),
    Rule(r"tensorflow::.*(?:Resize|CropAndResize|Interpolate)", "tensorflow", "elementwise", "interpolation", "void tensorflow::(anonymous namespace)::ResizeBilinearKernel<float>(int, float const*, float, float, …"),
    # kernels that MLIR generates from an operator and its types
    Rule(r"^(?:Relu|Relu6|LeakyRelu|Elu|Selu|Sigmoid|Tanh|Softplus|Softsign)\w*_GPU_DT_", "tensorflow", "activation", "generated", "Tanh_GPU_DT_FLOAT_DT_FLOAT_kernel"),
    Rule(r"^Cast_GPU_DT_", "tensorflow", "cast", "generated", "Cast_GPU_DT_HALF_DT_FLOAT_kernel"),
    Rule(r"^\w+_GPU_DT_", "tensorflow", "elementwise", "generated", "AddV2_GPU_DT_FLOAT_DT_FLOAT_kernel"),
    # Eigen's expressions: what reduces or moves before what only computes
    Rule(r"Eigen::.*(?:FullReduction|InnerReduction|OuterReduction|ReductionInit)\w*Kernel", "eigen", "reduction", None, "void Eigen::internal::FullReductionKernel<256, 128, Eigen::TensorEvaluator<Eigen::TensorReductionOp<…"),
    Rule(r"Eigen::.*TensorTupleReducerOp|Eigen::.*TensorPairReducerOp|Eigen::.*TensorScanOp", "eigen", "reduction", None, "_ZN5Eigen8internal15EigenMetaKernelINS_15TensorEvaluatorIKNS_14TensorAssignOpIxEEKNS_20TensorTupleReducerOpINS0_18ArgMaxTupleReducerIfEEEEEE"),
    Rule(r"Eigen::.*TensorContraction", "eigen", "gemm", "contraction", "void Eigen::internal::EigenFloatContractionKernel<float, long, Eigen::internal::TensorContractionInputMapper<…"),
    Rule(r"Eigen::.*TensorShufflingOp|Eigen::.*TensorLayoutSwapOp", "eigen", "layout", "transposition", "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<…>, Eigen::TensorShufflingOp<…"),
    Rule(r"Eigen::.*TensorReductionOp", "eigen", "reduction", None, "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<Eigen::Tensor<int, 0, 1, int>, 16>, Eigen::TensorReductionOp<Eigen::internal::ProdReducer<int>, …"),
    # a scalar learning rate, broadcast and multiplied by the gradient, is subtracted from the variable
    Rule(r"Eigen::.*scalar_difference_op.*scalar_product_op.*TensorBroadcastingOp.*TensorReshapingOp.*TensorFixedSize", "eigen", "optimizer", "gradient descent", "_ZN5Eigen8internal15EigenMetaKernelINS_15TensorEvaluatorIKNS_19TensorCwiseBinaryOpINS0_20scalar_difference_opIfEEKNS8_INS0_17scalar_product_opIKfSD_EEKNS_20TensorBroadcastingOpIKNS_17TensorReshapingOpIKNS_5SizesIJLl1EEEEKNS4_INS_15TensorFixedSizeIfEEEEE"),
    # max(x, 0), and its gradient: the other one times (x > 0) as a number
    Rule(r"Eigen::.*scalar_max_op.*TensorCwiseNullaryOp|Eigen::.*scalar_product_op.*TensorConversionOp.*scalar_(?:cmp|boolean)", "eigen", "activation", "relu", "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<…Eigen::internal::scalar_max_op<float const >, …Eigen::TensorCwiseNullaryOp<…"),
    Rule(r"Eigen::.*scalar_(?:tanh|logistic|sigmoid|elu|softplus|inverse_gradient|tanh_gradient)", "eigen", "activation", None, "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<…Eigen::internal::scalar_tanh_op<float>, …"),
    Rule(r"Eigen::.*scalar_random|Eigen::.*(?:Uniform|Normal)RandomGenerator", "eigen", "random", None, "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<…Eigen::internal::UniformRandomGenerator<float>, …"),
    Rule(r"Eigen::.*(?:TensorCwise(?:Binary|Unary|Ternary)Op|TensorSelectOp|TensorGeneratorOp|TensorCustom)", "eigen", "elementwise", None, "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorEvalToOp<Eigen::TensorCwiseUnaryOp<Eigen::internal::scalar_log_op<float>, …"),
    Rule(r"Eigen::.*TensorConversionOp", "eigen", "cast", None, "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<…>, Eigen::TensorConversionOp<float, Eigen::TensorMap<…"),
    Rule(r"Eigen::.*TensorCwiseNullaryOp", "eigen", "copy", "fill", "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<…Eigen::TensorCwiseNullaryOp<Eigen::internal::scalar_const_op<float>, …"),
    Rule(r"Eigen::.*EigenMetaKernel", "eigen", "copy", None, "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<…>, Eigen::TensorBroadcastingOp<…"),
    Rule(r"\bEigen::", "eigen", None, None, "void Eigen::internal::SomeLaterKernel<float>(float*)"),
    Rule(r"\btensorflow::", "tensorflow", None, None, "void tensorflow::functor::SomeLaterKernel<float>(float*)"),
)  # fmt: skip

_MXNET = (
    Rule(r"mxnet::op::.*(?i:sgd|adam|adagrad|rmsprop|ftrl|ftml|nag|signum|lamb|lars)\w*(?:Kernel|Update|_update)?", "mxnet", "optimizer", None, "_ZN5mxnet2op8mxnet_op20mxnet_generic_kernelINS0_14MultiSGDKernelIfLb0ELb0EEEJNS0_19MultiSGDKernelParamIffEENS_9OpReqTypeEEEEviDpT0_"),
    Rule(r"mxnet::op::.*softmax|mshadow::cuda::Softmax", "mxnet", "softmax", None, "_ZN7mshadow4cuda13SoftmaxKernelILi8EfNS_4expr4PlanINS_6TensorINS_3gpuELi2EfEEfEES7_EEvT1_T2_j"),
    Rule(r"mxnet::op::.*(?:set_to_int|set_to_scalar|set_zero|set_one|range_fwd|fill)", "mxnet", "copy", "fill", "_ZN5mxnet2op8mxnet_op20mxnet_generic_kernelINS1_11op_with_reqINS1_10set_to_intILi0EEELi1EEEJPfEEEviDpT0_"),
    Rule(r"mxnet::op::.*(?:pick|argmax|argmin|topk|sort|mean|norm_|sum_)|mxnet::op::broadcast::reduce|reduce_kernel_M1|reduce_lines_kernel", "mxnet", "reduction", None, "_ZN5mxnet2op8mxnet_op20mxnet_generic_kernelINS0_4pickILi2ELb1EEEJPfS5_PiiiN7mshadow5ShapeILi2EEES9_EEEviDpT0_"),
    Rule(r"mxnet::op::.*(?:BatchNorm|batchnorm|LayerNorm|layer_norm|instance_norm|group_norm|lrn)", "mxnet", "normalisation", None, "void mxnet::op::batchnorm::cuda::BatchNormalizationUpdateOutputKernel<float, float, …"),
    Rule(r"mxnet::op::.*(?i:pool)", "mxnet", "pooling", None, "void mxnet::op::pool_max_2d_gpu_kernel<float>(int, float const*, int, int, int, …"),
    Rule(r"mxnet::op::.*(?:im2col|col2im|[Tt]ranspose|SwapAxis|depth_to_space|space_to_depth)", "mxnet", "layout", None, "void mxnet::op::im2col_gpu_kernel<float>(int, float const*, int, int, …"),
    Rule(r"mxnet::op::.*(?:[Dd]ropout|sample_|Sample\w*Kernel|RandGenerator|random)", "mxnet", "random", None, "void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::DropoutOp<mshadow::gpu, float>::DropoutKernel, …"),
    Rule(r"mxnet::op::.*(?:[Tt]ake|[Ee]mbedding|one_hot|gather_nd|scatter_nd|AddTakeGrad|index_copy)|mshadow::cuda::AddTakeGrad", "mxnet", "embedding", None, "void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::TakeZeroAxisGPU<true>, float*, …"),
    Rule(r"mxnet::op::.*(?:relu|sigmoid|tanh|softsign|softrelu|gelu|erf|xelu)|mshadow::.*op::(?:relu|sigmoid|tanh)|mxnet::op::mshadow_op::(?:relu|sigmoid|tanh)", "mxnet", "activation", None, "void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::mxnet_op::op_with_req<mxnet::op::mshadow_op::relu, 1>, …"),
    Rule(r"mxnet::op::.*(?i:cast)(?!_)", "mxnet", "cast", None, "void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::CastKernel<float>, …"),
    Rule(r"mxnet::op::.*(?:slice|concat|pad_|tile|repeat|reverse|copy|identity,|Identity|broadcast_kernel|where)", "mxnet", "copy", None, "void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::slice_forward<2, mshadow::gpu>, …"),
    # University of Illinois, ECE 408: students write this convolution for MXNet. Its parameters are output, input, weights and
    # six sizes: batch, output and input channels, height, width and kernel
    Rule(r"mxnet::op::forward_kernel", "mxnet", _FORWARD, "direct", "_ZN5mxnet2op14forward_kernelEPfPKfS3_iiiiii"),
    Rule(r"mxnet::op::|mxnet_generic_kernel|^FusedKernel_", "mxnet", "elementwise", None, "_ZN5mxnet2op8mxnet_op20mxnet_generic_kernelINS1_11op_with_reqINS0_10mshadow_op3mulELi1EEEJPfS7_fEEEviDpT0_"),
    Rule(r"mshadow::cuda::MapRed|mshadow::.*ReduceWithAxisExp", "mshadow", "reduction", None, "_ZN7mshadow4cuda22MapRedKeepLowestKernelINS_2sv6savetoENS_3red3sumELi5EfNS_4expr4PlanINS_6TensorINS_3gpuELi1EfEEfEEEE"),
    Rule(r"mshadow::.*(?:PoolingExp|UnPoolingExp)", "mshadow", "pooling", None, "void mshadow::cuda::MapPlanKernel<mshadow::sv::saveto, 8, mshadow::expr::Plan<…mshadow::expr::PoolingExp<…"),
    Rule(r"mshadow::.*(?:Transpose|SwapAxisExp|UnpackPatchToCol|PackColToPatch)", "mshadow", "layout", None, "void mshadow::cuda::MapPlanKernel<mshadow::sv::saveto, 8, …mshadow::expr::TransposeExExp<…"),
    Rule(r"mshadow::.*(?:BinaryMapExp|UnaryMapExp|TernaryMapExp|sv::(?:plusto|minusto|multo|divto))", "mshadow", "elementwise", None, "_ZN7mshadow4cuda13MapPlanKernelINS_2sv6plustoELi8ENS_4expr4PlanINS_6TensorINS_3gpuELi2EfEEfEENS5_INS4_14Broadcast1DExpIfEE"),
    Rule(r"mshadow::.*sv::saveto.*(?:ScalarExp|Broadcast|Tensor|SliceExp|CroppingExp|PaddingExp|ReshapeExp|RepmatExp)", "mshadow", "copy", None, "_ZN7mshadow4cuda13MapPlanKernelINS_2sv6savetoELi8ENS_4expr4PlanINS_6TensorINS_3gpuELi2EfEEfEENS5_INS4_9ScalarExpIfEEfEEEEvT1_lNS_5ShapeILi2EEET2_"),
    Rule(r"\bmshadow::", "mshadow", "elementwise", None, "void mshadow::cuda::SomeLaterKernel<float>(float*)"),
)  # fmt: skip

_CNTK = (
    Rule(r"CNTK::.*TensorOpWithReduction|CNTK::.*_reduction|_launchTensorOpWithReduction", "cntk", "reduction", None, "void Microsoft::MSR::CNTK::_launchTensorOpWithReduction<float, 2, 1, 1>(float, …"),
    Rule(r"CNTK::.*(?i:tensorop)|_launch(?:Unary|Binary|Ternary)?TensorOp", "cntk", "elementwise", None, "void Microsoft::MSR::CNTK::_launchTensorOp<float, 3, 0, 1>(float, Microsoft::MSR::CNTK::FixedArray<float*, 3>, …"),
    Rule(r"k?ConvolutionBackwardData", "cntk", _DATA, "reference", "void Microsoft::MSR::CNTK::kConvolutionBackwardData<float>(int, int const*, …"),
    Rule(r"k?ConvolutionBackwardKernel|kConvolutionBackwardFilter", "cntk", _WEIGHT, "reference", "void Microsoft::MSR::CNTK::kConvolutionBackwardKernel<float>(int, int, int, int const*, …"),
    Rule(r"kConvolutionForward", "cntk", _FORWARD, "reference", "void Microsoft::MSR::CNTK::kConvolutionForward<float>(int, float const*, …"),
    Rule(r"k(?:Max|Average)(?:Un)?[Pp]ooling|CNTK::.*[Pp]ooling", "cntk", "pooling", None, "void Microsoft::MSR::CNTK::kMaxPoolingForward<float>(int, int const*, int const*, …"),
    Rule(r"k(?:NormalizeBatch|ComputeBatchMean|ComputeSpatialBatch|BackpropagateBatch|ComputeScaleAndBias|BatchNorm)\w*|CNTK::.*(?i:batch_?norm)", "cntk", "normalisation", "batch", "void Microsoft::MSR::CNTK::kNormalizeBatchTraining<128, 4, true, false, float, float>(int, int, int, …"),
    Rule(r"CNTK::.*(?i:softmax)|_(?:assignColumnwise|inplaceColumnwise|assignRowwise)\w*Softmax", "cntk", "softmax", None, "void Microsoft::MSR::CNTK::_assignColumnwiseLogSoftmaxOf512Threads<float>(float const*, float*, int, int)"),
    Rule(r"_(?:elementWise|inplace|assign)?(?:Sigmoid|Tanh|RectifiedLinear|LinearRectifier)\w*", "cntk", "activation", None, "void Microsoft::MSR::CNTK::_elementWiseSigmoidOnCuda<float>(float const*, float*, int)"),
    Rule(r"CNTK::_?(?:adagrad|fsadagrad|adam|rmsprop|adadelta|normalGrad|smoothL1|sparseadagrad)\w*|_(?:fs)?adagrad\w*|_rmsprop\w*", "cntk", "optimizer", None, "void Microsoft::MSR::CNTK::_fsadagrad<float>(long, float*, float*, float*, float, float, float, float)"),
    Rule(r"CNTK::.*(?i:random|dropoutmask|setUniform|setGauss|mask)", "cntk", "random", None, "void Microsoft::MSR::CNTK::_setMaskAndScale<float>(float*, int, float, float)"),
    Rule(r"CNTK::_?(?:copy|set|assign(?:Row|Col|Repeat|Slice)|doScatter|doGather|add?Scaled?Columns|rowStack|scatter|gather)\w*", "cntk", "copy", None, "void Microsoft::MSR::CNTK::_copyColumnsStrided<float>(float*, float*, int, int, int, int)"),
    Rule(r"CNTK::.*(?i:transpose)", "cntk", "layout", "transposition", "void Microsoft::MSR::CNTK::_assignTransposeOf<float>(float*, float const*, int, int)"),
    Rule(r"CNTK::.*(?:dense\w*(?:Mult|Conv|Times)|sparse\w*(?:Mult|Times)|dense1DConv)", "cntk", "gemm", "sparse", "void Microsoft::MSR::CNTK::_dense1DConvMultSparseCSCAndWeightedAddToDense<float>(int, int, …"),
    Rule(r"CNTK::.*(?i:reduc|sum|norm|innerProduct|max|min|error|entropy)", "cntk", "reduction", None, "void Microsoft::MSR::CNTK::_vectorSum<float>(float*, float const*, int, int, bool)"),
    Rule(r"CNTK::_?(?:elementWise|inplace|scale|add|multiply|minus)\w*|CNTK::.*(?:ElementWise|elementWise)", "cntk", "elementwise", None, "void Microsoft::MSR::CNTK::_scaleAndAddScalar<float>(float*, int, float*, float*, float*)"),
    Rule(r"\bCNTK::", "cntk", None, None, "void Microsoft::MSR::CNTK::_someLaterKernel<float>(float*)"),
)  # fmt: skip

# Programs' own kernels, told by what they are called. Whole words of a name, most telling first.
_PROGRAMS = (
    Rule(r"^\[?(?:CUDA )?mem(?:cpy|set)\b|^Mem(?:cpy|set) |^MEMCPY", None, "copy", None, "Memcpy DtoD (Device -> Device)"),
    # CloverLeaf: hydrodynamics on a grid. Reductions over it, values at its edges, and else each point from its neighbours
    Rule(r"clover::par_reduce_kernel", None, "reduction", "grid", "void clover::par_reduce_kernel<field_summary(global_variables &, parallel_ &)::[lambda(int) (instance 1)]>(T1)"),
    Rule(r"clover::par_ranged\dd?_kernel<(?:update_halo|clover_pack|clover_unpack)", None, "copy", "halo", "void clover::par_ranged1d_kernel<update_halo_kernel(int, int, int, int, const std::array<int, 4> &, …"),
    Rule(r"clover::par_ranged\dd?_kernel<(?:build_field|generate_chunk|initialise_chunk)", None, "copy", "fill", "void clover::par_ranged2d_kernel<build_field(global_variables &)::[lambda(int, int) (instance 1)]>(clover::Range2d, T1)"),
    Rule(r"clover::par_ranged\dd?_kernel", None, "elementwise", "stencil", "void clover::par_ranged2d_kernel<PdV_kernel(bool, int, int, int, int, double, clover::Buffer2D<double> &, …"),
    # Rodinia's cfd: each cell of an unstructured mesh from its four neighbours and itself
    Rule(r"cuda_initialize_variables", None, "copy", "fill", "cuda_initialize_variables(int, float*)"),
    Rule(r"cuda_(?:compute_flux|time_step|compute_step_factor)", None, "elementwise", "stencil", "cuda_compute_flux(int, int*, float*, float*, float*)"),
    # BabelStream: a[i] = b[i] + c * d[i] and its relatives; dot adds the products up
    Rule(r"^(?:\w+/)?triad_kernel|^nstream_kernel", None, "elementwise", "stream", "void triad_kernel<double>(double*, double const *, double const *)"),
    # Darknet's names; the one that no word explains is its dropout
    Rule(r"yoloswag420blazeit360noscope", "darknet", "random", "dropout", "yoloswag420blazeit360noscope(float*, int, float*, float, float)"),
    Rule(r"fast_(?:mean|variance)\w*_kernel|(?:mean|variance)_delta_kernel|^normalize_(?:delta_)?kernel|l2norm_kernel", "darknet", "normalisation", None, "fast_mean_kernel(float*, int, int, int, float*)"),
    Rule(r"activate_array|gradient_array|binary_(?:gradient_)?activate", "darknet", "activation", None, "activate_array_kernel(float*, int, ACTIVATION)"),
    Rule(r"shortcut_kernel|(?:add|scale)_bias_kernel|^(?:axpy|scal|pow|mul|mult_add_into|const|constrain|supp|inter|deinter|weighted_sum|smooth_l1|l1|l2|wgan)_kernel\b", "darknet", "elementwise", None, "shortcut_kernel(int, int, int, int, int, int, int, int, int, int, float, float, float*, int, int, int, float, float*)"),
    Rule(r"backward_bias|backward_scale_kernel", "darknet", "reduction", "bias gradient", "backward_bias_kernel(float*, float*, int, int, int)"),
    Rule(r"^(?:reorg|flatten)_kernel", "darknet", "layout", None, "reorg_kernel(int, float*, int, int, int, int, int, int, float*)"),
    # from here on words that any program may use
    Rule(r"(?i)(?:^|[^a-z])im2col|col2im|(?:^|[^a-z])transpos|permute|_nhwc_to|_nchw_to|layout_trans", None, "layout", None, "transposeCoalesced(float*, float const*)"),
    Rule(r"(?i)attention|(?:^|[^a-z])attn(?:[^a-z]|$)|sdpa|fmha", None, "attention", None, "void my_flash_attention_kernel<float, 64>(float*, float*, float*)"),
    Rule(r"(?i)conv\w*(?:dgrad|bwd_?data|backward_?(?:data|input)|grad_?input)", None, _DATA, None, "conv2d_backward_input_kernel(float*, float const*, float const*, int)"),
    Rule(r"(?i)conv\w*(?:wgrad|wrw|bwd_?(?:weight|filter)|backward_?(?:weight|filter)|grad_?(?:weight|filter))", None, _WEIGHT, None, "conv2d_grad_weight_kernel(float*, float const*, float const*, int)"),
    Rule(r"(?i)(?:^|[^a-z])(?:de)?conv(?:olution\w*|\dd\w*|_\w*|[lf]\w*)?(?![a-z])", None, _FORWARD, None, "conv_forward_kernel(float*, float const*, float const*, int, int, int, int, int, int)"),
    Rule(r"(?i)gemm|mat_?mul|matrix_?mul|(?:^|_)mm_|gemv|linear_kernel", None, "gemm", None, "matrixMultiplyShared(float*, float*, float*, int, int, int, int, int, int)"),
    Rule(r"(?i)softmax|cross_?entropy", None, "softmax", None, "softmax_kernel"),
    Rule(r"(?i)(?:^|[^a-z])(?:batch|layer|group|instance|rms)?_?norm(?:ali[sz]\w*)?(?:[^a-z]|$)|batch_?norm|layer_?norm|lrn_|_lrn", None, "normalisation", None, "normalize_features_kernel(float*, int, int)"),
    Rule(r"(?i)pool(?:ing)?(?:[^a-z]|$)|max_?pool|avg_?pool", None, "pooling", None, "forward_maxpool_layer_kernel(int, int, int, int, int, int, int, float*, float*, int*)"),
    Rule(r"(?i)(?:^|[^a-z])(?:leaky_?)?(?:relu|gelu|silu|swish|sigmoid|tanh|activat\w*)(?:[^a-z]|$)", None, "activation", None, "relu_forward_kernel(float*, float const*, int)"),
    Rule(r"(?i)(?:^|[^a-z])(?:lstm|gru|rnn)(?:[^a-z]|$)", None, "recurrent", None, "lstm_cell_forward_kernel(float*, float*, int)"),
    Rule(r"(?i)dropout|random|(?:^|[^a-z])(?:rand|rng)(?:[^a-z]|$)", None, "random", None, "dropout_forward_kernel(float*, float*, unsigned long, float, int)"),
    Rule(r"(?i)(?:^|[^a-z])(?:adam\w?|sgd|adagrad|rmsprop|lamb|optimi[sz]er\w*)(?:[^a-z]|$)|weight_?update|update_?weight", None, "optimizer", None, "adam_kernel(int, float*, float*, float*, float, float, float, float, float, int)"),
    Rule(r"(?i)embedding|(?:^|[^a-z])(?:gather|scatter|lookup|index_select)(?:[^a-z]|$)", None, "embedding", None, "embedding_lookup_kernel(float*, float const*, int const*, int)"),
    Rule(r"(?i)(?:^|[^a-z])(?:dot|reduc\w*|sum|mean|variance|arg(?:max|min)|max|min|norm\d|scan|prefix_?sum|histogram|sort|top_?k|softargmax)_?(?:kernel)?(?:[^a-z]|$)", None, "reduction", None, "void dot_kernel<double>(double const *, double const *, double*, unsigned int)"),
    Rule(r"(?i)(?:^|[^a-z])(?:cast|convert)(?:[^a-z]|$)|(?:float|half|int8|fp?32|fp?16|bf16)_?(?:to|2)_?(?:float|half|int8|fp?32|fp?16|bf16)", None, "cast", None, "cuda_f32_to_f16(float*, unsigned long, __half*)"),
    Rule(r"(?i)(?:^|[^a-z])(?:copy|memcpy|memset|fill|init\w*|concat|split|slice|pad|set_?zero|zero)_?(?:kernel)?(?:[^a-z]|$)", None, "copy", None, "void copy_kernel<double>(double const *, double*)"),
    Rule(r"(?i)(?:^|[^a-z])(?:add|sub|mul|div|axpy|saxpy|daxpy|scal\w?|vec_?add|vector_?add|elementwise|element_wise|pointwise|bias_?add|add_?bias|mask|upsample|resize|interp\w*|stencil\w*|exp|log|sqrt|pow)_?(?:kernel)?(?:[^a-z]|$)|[Vv]ec(?:tor)?Add", None, "elementwise", None, "void add_kernel<double>(double const *, double const *, double*)"),
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    _COMMUNICATION + _ATTENTION + _TRITON + _ROCM + _CUDNN + _BLAS + _LIBRARIES + _ATEN + _TENSORFLOW + _MXNET + _CNTK + _XLA + _PROGRAMS
)  # fmt: skip

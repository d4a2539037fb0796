"""Kinds of operators: every rule's example, and every operator that the four frameworks' recordings of the four networks have."""

import re

import pandas as pd
import pytest

from kernelscope.analysis.kernels import classify
from kernelscope.analysis.trace import KINDS

# kind -> operators seen in traces of lenet, mlp, cnn and lstm
SEEN = {
    "gemm": """mkldnn::_linear_pointwise mkldnn::_linear_pointwise.binary onednn::qlinear_pointwise
        quantized::linear quantized::linear_dynamic quantized::linear_relu quantized::linear_relu_dynamic
        quantized::linear_dynamic_fp16 prepacked::linear_clamp_run sparse::qlinear_dynamic quantized::matmul
        quantized::linear_with_input_q_dq_qweight_dequant_relu_output_fp32
        AddmmBackward0 aten::addmm aten::mm aten::linear _MklMatMul _MklNativeFusedMatMul MatMul FullyConnected
        _backward_FullyConnected Times483 TransposeTimes580
        dot_general ragged_dot_general UniformQuantizedDot""",
    "convolution forward": """quantized::conv2d quantized::conv2d_relu quantized::conv_transpose2d quantized::conv1d_dynamic
        prepacked::conv2d_clamp_run onednn::qconv2d_pointwise mkldnn::_convolution_pointwise
        aten::conv2d aten::mkldnn_convolution _MklNativeFusedConv2D Conv2D Convolution Convolution427
        conv_general_dilated""",
    "convolution data gradient": "_MklNativeConv2DBackpropInput Conv2DBackpropInput",
    "convolution weight gradient": """ConvolutionBackward0 aten::convolution_backward _MklNativeConv2DBackpropFilterWithBias
        Conv2DBackpropFilter _backward_Convolution""",
    "recurrent": "aten::lstm aten::mkldnn_rnn_layer MkldnnRnnLayerBackward0 RNN _backward_RNN CudnnRNNV3 OptimizedRNNStack",
    "softmax": """aten::_log_softmax aten::_log_softmax_backward_data aten::cross_entropy_loss log_softmax _backward_log_softmax
        SparseSoftmaxCrossEntropyWithLogits CrossEntropyWithSoftmax SoftmaxOutput""",
    "normalisation": "aten::native_batch_norm BatchNorm FusedBatchNormV3 aten::native_layer_norm BatchNormalization LRN",
    "pooling": """aten::avg_pool2d aten::max_pool2d_with_indices_backward AvgPool2DBackward0 MaxPoolGrad _MklNativeAvgPool Pooling
        _backward_Pooling Pooling445""",
    "activation": """aten::tanh aten::tanh_backward aten::relu aten::threshold_backward ReluBackward0 Tanh TanhGrad ReluGrad
        Activation _backward_Activation Tanh431 ReLU12 StableSigmoid LeakyReLU Sigmoid
        logistic aten::glu aten::hardshrink Relu6Grad""",
    "random": """aten::bernoulli_ aten::dropout Dropout StatelessRandomUniformV2 _random_uniform
        rng_bit_generator threefry2x32 philox4x32""",
    "reduction": """aten::sum aten::nll_loss_forward NllLossBackward0 Sum BiasAddGrad mean pick _backward_mean _backward_pick
        ReduceElements583 Hardmax600 ClassificationError ArgMax
        aten::aminmax aten::_aminmax aten::cdist aten::_cdist_forward aten::_unique2 aten::searchsorted aten::cummax aten::msort
        aten::_ctc_loss UniqueV2 DenseBincount cummax""",
    "optimizer": """Optimizer.step#SGD.step aten::_foreach_add_ aten::_foreach_mul_ ResourceApplyKerasMomentum AssignAddVariableOp
        AssignSubVariableOp sgd_mom_update multi_sgd_mom_update rmsprop_update ResourceApplyRMSProp""",
    "elementwise": """aten::add_ aten::mul aten::addcdiv_ aten::addcmul_ aten::sqrt aten::div_ aten::clamp_min MulBackward0
        torch::autograd::AccumulateGrad Mul AddV2 AddN Sub RealDiv DivNoNan Sqrt Square GreaterEqual SelectV2 FloorMod BiasAdd
        _mul_scalar _backward_mul_scalar _backward_Dropout elemwise_add broadcast_mul negative Minus586 Plus429 ElementTimes
        integer_pow rem and is_finite shift_left aten::isnan aten::remainder aten::huber_loss aten::expm1 aten::lgamma
        aten::_fft_r2c RFFT2D fft aten::grid_sampler_2d aten::special_erfcx
        aten::_amp_foreach_non_finite_check_and_unscale aten::atanh""",
    "communication": """c10d::allreduce_ c10d::reduce_ c10d::gather_ c10d::broadcast_
        AllToAll CrossReplicaSum psum psum_invariant ppermute all_to_all ragged_all_to_all all_gather reduce_scatter""",
    "cast": """Cast aten::_to_copy amp_cast
        convert_element_type reduce_precision bitcast_convert_type aten::_convert_weight_to_int4pack UniformQuantize""",
    "layout": "quantized::conv2d_prepack quantized::linear_prepack quantized::conv_transpose3d_unpack onednn::qconv_prepack "
    "prepacked::linear_clamp_prepack aten::mkldnn_reorder_conv2d_weight mkldnn::_reorder_linear_weight "
    "Transpose _MklTranspose SwapAxis _backward_SwapAxis TransposeDimensions",
    "copy": """aten::copy_ aten::fill_ aten::zero_ aten::zeros_like aten::cat aten::stack aten::item SelectBackward0 StridedSlice
        StridedSliceGrad ReadVariableOp VariableShape
        ConcatV2 Fill AssignVariableOp TensorListStack TensorListFromTensor _rnn_param_concat SetValueOp _zeros
        CopyCPU2CPU _copyto slice_axis _backward_Concat Flatten Reshape _backward_reshape Splice5 Slice44 PastValue12
        aten::nonzero aten::triu aten::diag aten::diagonal_backward aten::reflection_pad2d aten::new_zeros dynamic_slice
        Unpack Pack dynamic_update_slice broadcast_in_dim iota rev MatrixBandPart SpaceToBatchND aten::hstack""",
    "embedding": """fbgemm::permute_pooled_embs_auto_grad
        aten::embedding aten::index_select ResourceGather GatherV2 Embedding take one_hot
        quantized::embedding_bag_byte aten::masked_select aten::_unsafe_index TensorScatterUpdate gather scatter-add""",
    "unknown": """aten::view aten::t aten::transpose aten::empty aten::as_strided aten::detach NoOp aten::reshape WaitForVar
        DeleteVariable ImperativeBulk Optimizer.zero_grad#SGD.zero_grad EagerExecute
        aten::diagonal aten::is_inference aten::_trilinear ThreadPoolDataset aten::cosine_embedding_loss while custom_jvp_call
        linear_solve custom_linear_solve quantized::linear_unknown_thing""",
}


@pytest.mark.parametrize("rule", classify.RULES, ids=lambda rule: rule.example)
def test_every_rule_fits_its_example_before_any_other_rule_does(rule):
    simple = classify.simplify(rule.example)
    assert next(other for other in classify.RULES if re.search(other.pattern, simple)) is rule
    assert classify.operator_kind(rule.example) == rule.kind
    assert rule.kind in KINDS


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SEEN.items() for name in names.split()])
def test_operators_that_frameworks_run(kind, name):
    assert classify.operator_kind(name) == kind


@pytest.mark.parametrize(
    ("name", "simple"),
    [
        ("_MklNativeFusedConv2D", "conv2d"),
        ("aten::tanh_backward", "tanh backward"),
        ("TanhGrad", "tanh backward"),
        ("_backward_Activation", "activation backward"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "addmm backward"),
        ("Times483", "times"),
        ("SparseSoftmaxCrossEntropyWithLogits", "softmax cross entropy with logits"),
        ("ReLU12", "relu"),
    ],
)
def test_names_as_rules_see_them(name, simple):
    assert classify.simplify(name) == simple


def test_the_phase_decides_where_the_name_cannot():
    assert classify.operator_kind("Convolution427", "backward") == "convolution weight gradient"
    assert classify.operator_kind("Conv2DBackpropInput", "backward") == "convolution data gradient"
    assert classify.operator_kind("Mul", "optimizer") == "optimizer"
    assert classify.operator_kind("Mul", "forward") == "elementwise"
    assert classify.operator_kind("aten::zero_", "optimizer") == "copy"


def test_operators_that_ran_as_one_have_a_kind_if_they_share_it():
    assert classify.operator_kind("[_mul_scalar,elemwise_add]") == "elementwise"
    assert classify.operator_kind("[FullyConnected,Activation]") == "unknown"


def test_columns_are_classified_in_place():
    names = pd.Series(["Mul", None, "Tanh", "Mul"], index=[7, 3, 5, 1], dtype="string")
    assert classify.kinds(names).to_dict() == {7: "elementwise", 3: "unknown", 5: "activation", 1: "elementwise"}
    phases = pd.Series(["optimizer", None, "forward", None], index=[7, 3, 5, 1], dtype="string")
    assert classify.kinds(names, phases).to_dict() == {7: "optimizer", 3: "unknown", 5: "activation", 1: "elementwise"}
    assert classify.kinds(pd.Series([], dtype="string")).empty
    assert str(classify.kinds(names.astype("category")).dtype) == "string"

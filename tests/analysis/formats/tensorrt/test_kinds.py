"""Kinds of TensorRT's layers by their names: of operators, of fusions, and of what TensorRT puts in."""

from __future__ import annotations

import pandas as pd
import pytest

from kernelscope.analysis.formats.tensorrt import kinds
from kernelscope.analysis.kernels.short_names import short


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Reformatting CopyNode for Input Tensor 0 to Conv_3", "layout"),
        ("Reformatting CopyNode for Network Output y", "layout"),
        ("block/Conv2D + block/Relu input reformatter 0", "layout"),
        ("[HostToDeviceCopy 3]", "copy"),
        ("act_4/Relu:0 copy", "copy"),
        ("net/SHUFFLE_2_copy_input", "copy"),
        ("reshape_after_Gemm_9", "copy"),
        ("{ForeignNode[a/MatMul...b/Softmax + b/Reshape]}", "fused"),
        ("{conv1,relu1,pool1}", "fused"),
        ("__myl_MulAddResTra_myl0_12", "fused"),
        ("PWN(PWN(9 + (Unnamed Layer* 4) [Shuffle] + Add_3, Clip_4), Mul_5)", "elementwise"),
        ("Conv_5 + Add_6 + Relu_7", "convolution forward"),
        ("Conv_1 || Conv_2", "convolution forward"),
        ("ConvTranspose_3 + BatchNormalization_4 + Relu_5", "convolution forward"),
        ("/body/3/conv/Conv + PWN(PWN(/body/3/act/Sigmoid), /body/3/act/Mul)", "convolution forward"),
        ("w.weight + QuantizeLinear_8 + Conv_9", "convolution forward"),
        ("an_unknown_thing + PWN(x_clip)", "unknown"),
        ("Gemm_48", "gemm"),
        ("net/dense/MATRIX_MULTIPLY_0", "gemm"),
        ("net/skip/ELEMENTWISE_SUM_0", "elementwise"),
        ("fc.weight + QuantizeLinear_5 + Gemm_7 + fc.bias + (Unnamed Layer* 3) [Shuffle]", "gemm"),
        ("/attn/MatMul_myl3_7", "gemm"),
        ("MaxPool_2", "pooling"),
        ("GlobalAveragePool_46", "pooling"),
        ("QuantizeLinear_2", "cast"),
        ("DequantizeLinear_17_dequantize_scale_node", "cast"),
        ("Transpose_31", "layout"),
        ("ReduceMean_4", "reduction"),
        ("Softmax_9", "softmax"),
        ("LayerNormalization_1", "normalisation"),
        ("(Unnamed Layer* 3) [Convolution]", "convolution forward"),
        ("(Unnamed Layer* 3) [Convolution] + (Unnamed Layer* 5) [Activation]", "convolution forward"),
        ("(Unnamed Layer* 9) [Matrix Multiply]", "gemm"),
        ("(Unnamed Layer* 9) [PluginV2DynamicExt]", "unknown"),
        ("conv4 + relu4", "convolution forward"),
        ("layer12-conv", "convolution forward"),
        ("res_conv1_bn_1", "normalisation"),
        ("pool1", "pooling"),
        ("prob", "unknown"),
        ("norm1", "unknown"),
        ("inception_3a/pool_proj", "unknown"),
        ("CustomScatter_0", "unknown"),
    ],
)
def test_a_name_tells_the_kind_where_it_is_certain(name, kind):
    assert kinds.of(pd.Series([name])).tolist() == [kind]


@pytest.mark.parametrize("name", ["sm80_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize64x64x64_trt", "_gemm_mha_v2_myl0_3"])
def test_names_of_kernels_have_rules_of_their_own(name):
    assert kinds.of(pd.Series([name])).isna().all()


def test_short_names_keep_what_is_in_parentheses():
    assert short("PWN(a/Sigmoid, a/Mul)") == "PWN(a/Sigmoid, a/Mul)"
    assert short("conv1 + PWN(clip_2)") == "conv1 + PWN(clip_2)"
    assert short("bias/Add + (Unnamed Layer* 9) [Shuffle]") == "bias/Add + (Unnamed Layer* 9) [Shuffle]"
    assert short("void scale(float*, int)") == "scale"


def test_a_copy_keeps_a_name_of_its_own():
    names = ["resize (plugin)", "resize (plugin) input reformatter 0", "resize (plugin) output reformatter 1"]
    assert [short(name) for name in names] == names
    long = " + ".join(f"stage{place}/conv" for place in range(9))
    copy = short(f"{long} input reformatter 0")
    assert copy.startswith("stage0/conv + ")
    assert copy.endswith("… input reformatter 0")
    assert copy != short(long)
    assert kinds.of(pd.Series(names)).tolist() == ["unknown", "layout", "layout"]
    assert short("scale_rows (float)") == "scale_rows"

"""Layers and phases from the full names of operators."""

import pandas as pd
import pytest

from kernelscope.analysis.formats import scopes


@pytest.mark.parametrize(
    ("scope", "type_name", "layer", "phase"),
    [
        ("conv1/Conv2D", "Conv2D", "conv1", None),
        ("block/conv1/BiasAdd/ReadVariableOp", "ReadVariableOp", "block/conv1", None),
        ("gradients/conv1/Conv2D_grad/Conv2DBackpropFilter", "Conv2DBackpropFilter", "conv1", "backward"),
        ("gradients_1/dense/MatMul_grad/MatMul_1", "MatMul", "dense", "backward"),
        ("gradient_tape/lenet_1/conv2_1/convolution/Conv2DBackpropInput", "", "lenet_1/conv2_1/convolution", "backward"),
        ("Adam/update_conv1/kernel/ApplyAdam", "ApplyAdam", None, "optimizer"),
        ("train/GradientDescent_1/learning_rate", "Const", None, "optimizer"),
        ("MatMul", "MatMul", None, None),
        ("cluster_6/_2/_3", "_XlaLaunch", None, None),
        ("jit(matmul)/dot_general", "", None, None),
        ("jit(step)/jit(main)/jvp(Net)/Dense_0/dot_general", "", "Net/Dense_0", "forward"),
        ("jit(step)/jit(main)/transpose(jvp(Net))/Dense_0/dot_general", "", "Net/Dense_0", "backward"),
        ("jit(f)/jit(main)/while/body/layer1/add", "", "layer1", None),
        ("", "", None, None),
        ("/", "", None, None),
        ("_SOURCE", "NoOp", None, None),
    ],
)
def test_a_name_tells_layer_and_phase(scope, type_name, layer, phase):
    assert scopes.describe(scope, type_name) == scopes.ScopeParts(layer, phase)


def test_columns_are_aligned_and_keep_nulls():
    names = pd.Series(["conv1/Conv2D", None, "conv1/Conv2D"], index=[5, 6, 9], dtype="string")
    found = scopes.columns(names, pd.Series(["Conv2D", None, "Conv2D"], index=[5, 6, 9], dtype="string"))
    table = pd.DataFrame(found)
    assert table.index.tolist() == [5, 6, 9]
    assert table["layer"].fillna("-").tolist() == ["conv1", "-", "conv1"]
    assert table["attribution"].tolist() == ["operator name", "none", "operator name"]


def test_kinds_come_from_types_and_stay_null_where_they_do_not_tell():
    kinds = scopes.kinds(pd.Series(["Conv2D", "Frobnicate"]), pd.Series([None, None], dtype="string"))
    assert kinds.fillna("-").tolist() == ["convolution forward", "-"]

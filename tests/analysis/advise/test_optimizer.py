"""The optimizer's update on a processor, where PyTorch's foreach functions compute tensor by tensor."""

import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE
from kernelscope.analysis.advise.rules import optimizer
from tests.analysis.advise.test_parameters import subject


def update(*operators):
    rows = [
        {"part": COMPUTE, "phase": "optimizer", "operator": name, "name": name, "count": 50.0, "ms": 0.2} for name in operators
    ]
    return subject(rows, operators=[], optimizer=None)


@pytest.mark.parametrize(
    ("operators", "remedy"),
    [
        (("aten::mul_", "aten::add_"), "fused=True (or foreach=True) of torch.optim's optimizers"),
        (("aten::sqrt", "aten::add_", "aten::_foreach_lerp_"), "foreach=True, which is on, computes tensor by tensor"),
    ],
)
def test_an_update_tensor_by_tensor_is_the_optimizers_own(operators, remedy):
    (one,) = optimizer.many_kernels(update(*operators))
    assert one.title == "the optimizer updates parameters one by one"
    assert remedy in one.remedy
    assert "clip_grad_norm_" not in one.remedy


def test_what_is_done_beside_a_fused_update_is_told():
    (one,) = optimizer.many_kernels(update("aten::_fused_adam_", "aten::mul_", "aten::add_"))
    assert "besides the optimizer's update" in one.title

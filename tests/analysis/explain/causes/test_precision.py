"""Element types: other precisions, TF32 and conversions."""

import pytest

from kernelscope.analysis.explain.causes import precision


@pytest.fixture
def double_layer(make_kernel, make_kernels_case):
    k = make_kernel
    optimizer = [
        k("aten::mul_", "optimizer", 100, dtype="f32", problem="9x9"),
        k("aten::mul_", "optimizer", 50, dtype="f32", problem="4"),
    ]
    doubled = [
        k("aten::mul_", "optimizer", 230, dtype="f64", problem="9x9"),
        k("aten::mul_", "optimizer", 55, dtype="f32", problem="4"),
    ]
    return make_kernels_case(
        [
            ("fc1", "forward", [k("SGEMM", "gemm", 1000, dtype="f32")],
             [k("DGEMM", "gemm", 2100, dtype="f64"), k("aten::copy_", "cast", 300, 2.0, dtype="f64")], 40, 90),
            ("fc2", "forward", [k("SGEMM", "gemm", 500, dtype="f32")], [k("SGEMM", "gemm", 530, dtype="f32")], 40, 50),
            ("(optimizer)", "optimizer", optimizer, doubled, 20, 25),
        ]
    )  # fmt: skip


def test_a_layer_in_another_type_owns_what_it_takes_longer_and_what_its_parameters_cost(double_layer, suspected, swapped):
    (found,) = suspected(precision, double_layer)
    assert (found.cause, found.confidence) == ("precision", "high")
    assert found.title == "B computes fc1 and (optimizer) in f64, A in f32"
    # all of fc1, its host too, and of the optimizer's row what the parameter in f64 takes longer; nothing of fc2
    assert found.claims == {"r1": 1100, "r2": 300, "r3": 50, "r6": 130}
    assert any("DGEMM" in sentence and "2.40 µs in B" in sentence for sentence in found.evidence)
    (mirrored,) = suspected(precision, swapped(double_layer))
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}
    assert mirrored.title == found.title


@pytest.mark.parametrize("types", [("f32", "f32"), ("f32", None), (None, None)])
def test_the_same_type_and_an_unknown_one_are_no_difference(types, make_kernel, make_kernels_case, suspected):
    a, b = ([make_kernel("gemm", "gemm", ns, dtype=dtype)] for ns, dtype in zip((100, 900), types, strict=True))
    assert suspected(precision, make_kernels_case([("fc1", "forward", a, b)])) == []


def test_tf32_against_f32_on_a_gpu_names_the_setting(make_kernel, make_kernels_case, suspected):
    exact = [make_kernel("ampere_sgemm_128x64_tn", "gemm", 900, dtype="f32")]
    fast = [make_kernel("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1", "gemm", 300, dtype="tf32")]
    (found,) = suspected(precision, make_kernels_case([("fc1", "forward", fast, exact)]))
    assert found.claims == {"r1": 600}
    assert "set_float32_matmul_precision('high')" in found.remedy


def test_two_frameworks_with_a_type_in_common_are_not_blamed(make_kernel, make_kernels_case, make_side, suspected):
    a = [make_kernel("hgemm", "gemm", 100, dtype="f16"), make_kernel("sgemm", "gemm", 10, dtype="f32")]
    b = [make_kernel("h884gemm", "gemm", 200, dtype="f16")]
    assert suspected(precision, make_kernels_case([("fc1", "forward", a, b)], b=make_side("B", "mxnet"))) == []


def test_a_recorded_precision_of_products_that_changes_the_kernels_owns_the_difference(
    make_kernel, make_kernels_case, make_side, suspected
):
    sides = [make_side(name, settings={"matmul_precision": value}) for name, value in (("A", "medium"), ("B", "highest"))]
    groups = [("fc1", "forward", [make_kernel("matmul brg:avx512_core_bf16", "gemm", 200, dtype="f32")],
               [make_kernel("SGEMM", "gemm", 700, dtype="f32")]),
              ("relu1", "forward", [make_kernel("relu", "activation", 70)], [make_kernel("relu", "activation", 75)])]  # fmt: skip
    (found,) = suspected(precision, make_kernels_case(groups, *sides))
    assert (found.precedence, found.claims) == (0, {"r1": 500, "r2": 5})
    assert found.title == "B multiplies with matmul_precision highest, A with medium"
    same = [("fc1", "forward", groups[0][3], groups[0][3])]
    assert suspected(precision, make_kernels_case(same, *sides)) == [], "a setting that changes no kernel explains nothing"


def test_keras_s_policy_owns_the_difference_where_it_changes_what_runs(make_kernel, make_kernels_case, make_side, suspected):
    """Kernels of TensorFlow have the same names in all types, and do not tell these."""
    policies = (("A", "float32"), ("B", "mixed_bfloat16"))
    sides = [make_side(name, "tensorflow", settings={"precision_policy": value}) for name, value in policies]
    matmul = make_kernel("MatMul", "gemm", 200)
    mixed = [{**matmul, "time_ns": 500}, make_kernel("Cast", "cast", 70)]
    found, *_ = suspected(precision, make_kernels_case([("fc1", "forward", [matmul], mixed)], *sides))
    assert (found.precedence, found.claims) == (0, {"r1": 300, "r2": 70})
    assert found.title == "B computes with the policy mixed_bfloat16, A with float32"
    assert "remove set_global_policy('mixed_bfloat16')" in found.remedy
    other, *_ = suspected(precision, make_kernels_case([("fc1", "forward", mixed, [matmul])], *sides))
    assert other.remedy == "keras.mixed_precision.set_global_policy('mixed_bfloat16')"
    known = {**matmul, "problem": "m8 n8 k8", "operator": "MatMul"}
    same = [("fc1", "forward", [known], [{**known, "time_ns": 260}])]
    assert suspected(precision, make_kernels_case(same, *sides)) == [], "a setting that changes no kernel explains nothing"


def test_conversions_between_types_that_one_side_makes(make_kernel, make_kernels_case, suspected):
    a = [make_kernel("gemm", "gemm", 500, dtype="f16")]
    b = [make_kernel("gemm", "gemm", 510, dtype="f16"), make_kernel("copy", "cast", 300, 3.0, dtype="f16")]
    (found,) = suspected(precision, make_kernels_case([("fc1", "forward", a, b)]))
    assert (found.cause, found.claims) == ("type conversions", {"r2": 300})
    assert "B: 3 conversions per step, 300 ns; A: 0 conversions per step, 0 ns" in found.evidence

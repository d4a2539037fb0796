"""Kernels that another one replaces in totals: products that add up in another type, and what may be the same work."""

import pytest

import kernelscope as ks
from tests.analysis.printed_totals import text_of

COPIES = ("[CUDA memcpy DtoH]", 32, 5000.0)
SINGLE, INTEGER = "volta_sgemm_int8_128x128_nt", "volta_igemm_int8_128x128_ldg4_nt"


def test_products_that_add_up_in_another_type_are_named_beside_long_copies(explained):
    a = [COPIES, (SINGLE, 16, 343.0), ("turing_h1688gemm_128x128_ldg8_nt", 16, 139.0)]
    b = [COPIES, (INTEGER, 16, 243.0), ("turing_h1688gemm_128x128_ldg8_nt", 16, 139.0)]
    (found,) = explained(a, b)["findings"]  # 100 ms of 482, though 2% of all 5.5 s are 110 ms
    assert (found["cause"], found["explains_ns"]) == ("products by other kernels", -100_000_000)
    assert found["evidence"][0] == "Their names tell that products add up in float32 in A, and in int32 in B."
    assert found["remedy"].startswith("in A: add up in int32, as B does")


@pytest.mark.parametrize("ms", [341.0, 330.0], ids=["as long", "within what is left unsaid"])
def test_products_by_other_kernels_that_take_about_as_long_are_no_cause(explained, ms):
    assert explained([COPIES, (SINGLE, 16, 343.0)], [COPIES, (INTEGER, 16, ms)])["findings"] == []


def test_products_whose_names_tell_one_type_get_no_sentence_on_types(explained):
    (found,) = explained([(SINGLE, 16, 343.0)], [("volta_sgemm_int8_64x64_nt", 16, 200.0)])["findings"]
    assert not any("add up in" in said for said in [*found["evidence"], found["remedy"]])


# --- possibly the same work -----------------------------------------------------------------------------------------------------

WARP, FUNCTOR, FILL = "cv_warp_rows(float*)", "thrust_for_each(AffineFunctor)", "fill_functor(float*)"


@pytest.mark.parametrize("turned", [False, True])
def test_the_only_kernels_of_both_sides_are_possibly_the_same_work(explained, turned):
    sides = [(WARP, 1, 10.0)], [(FUNCTOR, 1, 56.0), (FILL, 3, 9.0)]
    result = explained(*(sides[::-1] if turned else sides))
    (found,) = [one for one in result["findings"] if one["cause"] == "possibly the same work"]
    assert (found["explains_ns"], found["confidence"]) == (-46_000_000 if turned else 46_000_000, "low")
    assert found["title"].startswith("possibly the same work by another kernel (")
    assert not any("only" in one["title"] and "fill" not in one["title"] for one in result["findings"])


@pytest.mark.parametrize(
    "b",
    [
        [(FUNCTOR, 2, 56.0), (FILL, 3, 9.0)],  # more often
        [(FUNCTOR, 1, 56.0), ("sort_keys(int*)", 1, 30.0), (FILL, 3, 9.0)],  # two
        [(FUNCTOR, 1, 20.0), (FILL, 3, 19.0)],  # hardly more than half
        [("ampere_sgemm_128x64_nn", 1, 56.0), (FILL, 3, 9.0)],  # a product
        [("cv_warp_rows<8>(float*)", 1, 56.0), (FILL, 3, 9.0)],  # the same name, by another template argument
    ],
    ids=["more often", "two", "half", "a product", "one name"],
)
def test_other_kernels_are_not_said_to_be_the_same_work(explained, b):
    assert "possibly the same work" not in [one["cause"] for one in explained([(WARP, 1, 10.0)], b)["findings"]]


# --- pinned memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pinned", [True, False])
def test_a_side_that_allocates_pinned_memory_is_told_to_use_it(tmp_path, pinned):
    calls = [("cudaHostAlloc" if pinned else "cudaMalloc", 8, 2.0)]
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, ms in zip(paths, (5000.0, 6700.0), strict=True):
        path.write_text(text_of([("saxpy(float*)", 10, 20.0), ("[CUDA memcpy DtoH]", 32, ms)], calls))
    (found,) = ks.explain(*paths)["findings"]
    assert ("see that these copies use the pinned memory that B allocates already" in found["remedy"]) is pinned
    assert found["remedy"].startswith("pinned memory, ") is not pinned

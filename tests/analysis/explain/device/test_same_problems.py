"""Of equal problems on both sides, the one that makes the difference is named."""

import pytest

import kernelscope as ks

LINE = "onednn_verbose,exec,cpu,inner_product,brgemm:avx512_core,forward_inference,src_f32::blocked:ab:f0,,,{},{}\n"
SMALL = [("mb200ic512oc128", 0.2), ("mb200ic128oc64", 0.04)]


def explained(tmp_path, *sides):
    paths = []
    for name, lines in zip("ab", sides, strict=True):
        paths.append(tmp_path / f"{name}.log")
        paths[-1].write_text("".join(LINE.format(problem, ms) for problem, ms in lines))
    return ks.explain(*paths)


def test_the_problem_that_makes_the_difference_is_named(tmp_path):
    (first,) = explained(tmp_path, [("mb200ic15680oc512", 31.6), *SMALL], [("mb200ic15680oc512", 28.7), *SMALL])["findings"]
    assert "mb200ic15680oc512) take longer in A than in B" in first["title"]
    assert first["evidence"][0].startswith("Both solve the same problems, as often; mb200ic15680oc512 makes -2.90 ms of -2.90 ms")
    assert first["remedy"].startswith("sizes are the same: compare threads")


@pytest.mark.parametrize(
    "b",
    [
        [("mb100ic15680oc512", 28.7), *SMALL],  # another problem
        [("mb200ic15680oc512", 30.2), ("mb200ic512oc128", 2.4), ("mb200ic128oc64", 2.4)],  # moves apart
    ],
)
def test_other_problems_are_not_named(tmp_path, b):
    result = explained(tmp_path, [("mb200ic15680oc512", 31.6), *SMALL], b)
    assert not any("same problems" in sentence for one in result["findings"] for sentence in one["evidence"])


def test_equal_logs_get_no_cause(tmp_path):
    assert explained(tmp_path, SMALL, SMALL)["findings"] == []

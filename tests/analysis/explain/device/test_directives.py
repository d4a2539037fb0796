"""Kernels that compilers made of loops by directives: a function from another line, and functions that one side lacks."""


def of(said, cause):
    return next((one for one in said["findings"] if one["cause"] == cause), None)


CAUSE = "loops divided otherwise"
A = [("net_c_conv_forward_77_gpu", 1000, 20.0), ("net_c_relu_forward_130_gpu", 1000, 8.0)]


def test_a_function_from_another_line_is_the_same_work(explained):
    said = explained(A, [("net_c_conv_forward_46_gpu", 1000, 900.0)])
    one = of(said, CAUSE)
    assert one["title"].startswith(
        "net_c_conv_forward (line 77 in A, line 46 in B) takes 45 times as long in B as in A: 20.0 ms in A, 900 ms in B, 1,000 "
    )
    assert one["explains_ns"] == 880_000_000
    assert "cuDNN" not in one["remedy"]
    assert "directives at line 46 with those at line 77 of A" in one["remedy"]
    assert any(text.startswith("B has no kernel of net_c_relu_forward, which take 8.00 ms in A") for text in said["notes"])


def test_unlike_functions_or_numbers_are_not(explained):
    assert of(explained(A, [("net_c_pool_forward_46_gpu", 1000, 900.0)]), CAUSE) is None
    assert of(explained(A, [("net_c_conv_forward_46_gpu", 3000, 900.0)]), CAUSE) is None
    said = explained(A, [("net_c_conv_forward_77_gpu", 1000, 900.0), A[1]])
    assert of(said, CAUSE) is None
    assert not any("has no kernel of" in text for text in said["notes"])


def test_convolutions_of_the_program_itself_are_not_for_cudnn_to_choose(explained):
    said = explained([("conv_tiled", 10, 20.0)], [("conv_naive", 10, 90.0)])
    assert not any("let cuDNN choose" in one["remedy"] for one in said["findings"])


def test_more_and_longer_executions_are_both_in_the_title(explained):
    """3 x 2 ms and 9 x 3 ms: 6 more of 2 ms are 12 ms, and 9 times 1 ms longer are 9 ms."""
    (one,) = explained([("new_vel", 3, 6.0)], [("new_vel", 9, 27.0)])["findings"]
    assert one["title"].endswith(
        "3 and 9 executions; B runs it more often (+12.0 ms), and an execution takes longer there (+9.00 ms)"
    )


def test_more_executions_alone_are_not_split(explained):
    (one,) = explained([("new_vel", 3, 6.0)], [("new_vel", 9, 18.0)])["findings"]
    assert one["title"].endswith("3 and 9 executions")


def test_all_kernels_and_copies_that_take_longer_are_a_larger_problem(explained):
    a = [("walk", 10, 700.0), ("setup", 10, 400.0), ("scale", 10, 1.0), ("[CUDA memcpy HtoD]", 20, 60.0)]
    b = [("walk", 10, 5600.0), ("setup", 10, 3200.0), ("scale", 10, 8.0)]
    (first, *_) = explained(a, [*b, ("[CUDA memcpy HtoD]", 20, 700.0)])["findings"]
    assert first["title"].endswith("of every kind: as with a larger problem, as copies take longer, too")
    (first, *_) = explained(a, [*b, a[-1]])["findings"]
    assert "larger problem" not in first["title"]

"""Thread counts, oversubscription and idle cores."""

from kernelscope.analysis.explain.causes import threads

ROWS = [
    ("conv1", "forward", "convolution forward", 1000, 1900),
    ("fc1", "forward", "gemm", 500, 700),
    ("fc1", "forward", "activation", 100, 50),
    ("(data)", "data", "(host: data)", 100, 110, False),
]


def test_a_recorded_number_of_threads_owns_everything(make_case, make_side, suspected, swapped):
    a, b = (
        make_side(name, settings={"threads": n}, variables={"OMP_NUM_THREADS": str(n)}) for name, n in (("two", 2), ("one", 1))
    )
    made = make_case(ROWS, a, b, instrumentation_ns=7)
    (found,) = suspected(threads, made)
    assert (found.cause, found.precedence, found.confidence) == ("thread count", 0, "high")
    assert found.title == "2 threads in two, 1 in one"
    assert found.claims == {"r1": 900, "r2": 200, "r3": -50, "r4": 10, "(profiling overhead)": 7}
    assert "torch.set_num_threads" in found.remedy
    (mirrored,) = suspected(threads, swapped(made))
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}


def test_across_frameworks_only_kernels_of_the_side_with_fewer_threads(make_case, make_side, suspected):
    two = make_side("two", "mxnet", settings={"threads": 2})
    one = make_side("one", settings={"threads": 1})
    (found,) = suspected(threads, make_case(ROWS, two, one))
    assert found.claims == {"r1": 900, "r2": 200, "r3": -50}
    assert suspected(threads, make_case(ROWS, one, two)) == [], "it is slower in spite of more threads"


def test_more_threads_than_cores_are_told(make_case, make_side, make_steps, suspected):
    machine = {"allowed_threads": 2, "processor": "X"}
    clean = [make_steps(10, 1000, involuntary_switches=40, user_ns=1500, system_ns=0)]
    a = make_side("two", settings={"threads": 2}, machine=machine, clean=[make_steps(10, 1000, user_ns=1900, system_ns=0)])
    (found,) = suspected(threads, make_case(ROWS, a, make_side("eight", settings={"threads": 8}, machine=machine, clean=clean)))
    assert "eight has 8 threads on 2 cores and 40 involuntary switches per step." in found.evidence
    assert "Cores kept busy on average: 1.9 for two, 1.5 for eight." in found.evidence


def test_cores_that_idle_are_found_by_processor_time(make_case, make_side, make_steps, suspected, swapped):
    # both use 1600 ns of processor time: with 1.6 busy cores it takes 1000, with 0.8 it takes 2000
    a = make_side("a", settings={"threads": 2}, clean=[make_steps(10, 1000, user_ns=1500, system_ns=100)])
    b = make_side("b", settings={"threads": 2}, clean=[make_steps(10, 2000, user_ns=1600, system_ns=0)])
    made = make_case([("fc1", "forward", "gemm", 1000, 2000), ("fc1", "forward", "(host: in operators)", 0, 500)], a, b)
    (found,) = suspected(threads, made)
    assert found.cause == "cores idle"
    assert found.precedence == 2
    assert found.claims == {"r1": 1000}
    assert "1.6 for a, 0.8 for b" in found.evidence[0]
    (mirrored,) = suspected(threads, swapped(made))
    assert mirrored.claims == {"r1": -1000}
    assert mirrored.title == found.title


def test_nothing_is_said_of_like_sides_more_work_or_unknown_figures(make_case, make_side, make_steps, suspected):
    def make(name, **columns):
        return make_side(name, settings={"threads": 2}, clean=[make_steps(10, 1000, **columns)])

    a = make("a", user_ns=1500, system_ns=100)
    for b in (a, make("b", user_ns=1500, system_ns=0), make("b"), make_side("b", settings={"threads": 2})):
        assert suspected(threads, make_case(ROWS, a, b)) == []
    more = make_side("b", settings={"threads": 2}, clean=[make_steps(10, 3000, user_ns=2400, system_ns=0)])
    assert suspected(threads, make_case(ROWS, a, more)) == [], "half as much again of processor time is more work"

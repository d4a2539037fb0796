"""Kernels that wait at the first use of unified memory, or read memory that stays on the host, as calls tell."""

import pytest

import kernelscope as ks

HEAD = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
ADVANCE = ("cudaMallocManaged", "cudaMemPrefetchAsync", "cudaLaunchKernel")
MANAGED = ("cudaMallocManaged", "cudaLaunchKernel")
ON_HOST = ("cudaHostAlloc", "cudaLaunchKernel")
EVEN, FIRST, SLOW = (
    ("90.000us", "29.000us", "31.000us"),
    ("4.0600ms", "30.000us", "4.0000ms"),
    ("1.8000ms", "590.00us", "610.00us"),
)


@pytest.fixture
def found(tmp_path):
    """Explain two summaries of three executions of one kernel: ((time, shortest, longest), calls) each."""

    def run(*sides):
        paths = []
        for name, ((whole, shortest, longest), calls) in zip("ab", sides, strict=True):
            paths.append(tmp_path / f"{name}.txt")
            rows = [f" GPU activities:  100.00%  {whole}         3  {shortest}  {shortest}  {longest}  saxpy(int, float*)\n"]
            for place, call in enumerate(calls):
                head = "      API calls:" if place == 0 else "                "
                rows.append(f"{head}   10.00%  20.000us         2  10.000us  10.000us  10.000us  {call}\n")
            paths[-1].write_text(f"==7== Profiling result:\n{HEAD}{''.join(rows)}")
        said = ks.explain(*paths)
        assert sum(one["explains_ns"] for one in said["findings"]) + said["unexplained_ns"] == said["wall_delta_ns"]
        return said["findings"][0]

    return run


def test_one_long_execution_with_unified_memory_is_its_page_faults(found):
    one = found((EVEN, ADVANCE), (FIRST, MANAGED))
    assert (one["cause"], one["explains_ns"], one["confidence"]) == ("page faults of unified memory", 3_970_000, "medium")
    assert one["title"].startswith(
        "one execution of saxpy waits in B, as for page faults of unified memory at its first use: 90.0"
    )
    assert one["evidence"][0].startswith("In B the longest execution takes 4.00 ms, the shortest 30.0 µs")
    assert one["evidence"][1].startswith("A calls cudaMemPrefetchAsync: there the data is moved outside of kernels")
    assert one["remedy"].startswith("in B: cudaMemPrefetchAsync before the kernel, as A does;")


@pytest.mark.parametrize(
    ("times", "calls"),
    [
        (FIRST, ("cudaMalloc", "cudaLaunchKernel")),  # memory of the device has no page faults
        (FIRST, ADVANCE),  # moved ahead here, too
        (SLOW, MANAGED),  # no execution is longer than the others
    ],
)
def test_other_long_executions_are_not(found, times, calls):
    assert found((EVEN, ADVANCE), (times, calls))["cause"] != "page faults of unified memory"


def test_even_executions_with_memory_of_the_host_alone_read_it_over_the_bus(found):
    one = found((EVEN, ADVANCE), (SLOW, ON_HOST))
    assert (one["cause"], one["explains_ns"], one["confidence"]) == ("memory on the host", 1_710_000, "medium")
    assert "saxpy seems to read memory that stays on the host in B, over the bus: 90.0 µs in A, 1.80 ms in B" in one["title"]
    assert one["remedy"].startswith("in B: cudaMalloc and a copy before the kernels")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((EVEN, ON_HOST), (SLOW, ON_HOST)),  # on both sides
        ((EVEN, MANAGED), (SLOW, ("cudaHostAlloc", "cudaMalloc"))),  # memory of the device, too
        ((EVEN, MANAGED), (FIRST, ON_HOST)),  # one execution alone takes long
    ],
)
def test_other_slow_kernels_do_not(found, a, b):
    assert found(a, b)["cause"] != "memory on the host"

"""What frameworks say when memory is out, as they were seen to say it, is told from other failures."""

import pytest

from kernelscope.tracer.outside import failures

OUT_OF_MEMORY = [
    "pytorch, clean pass: RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 58982400 bytes. Error code 12 (Cannot allocate memory)",
    "tensorflow, clean pass: MemoryError: Unable to allocate 96.0 MiB for an array with shape (4096, 3, 32, 32)",
    "jax, clean pass: JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 4718592 bytes; use a smaller --batch",
    "cntk, clean pass: RuntimeError: mkl err (-3)",
    "mxnet, clean pass: MXNetError: MXNetError: Resource temporarily unavailable",
    "tensorflow, clean pass: ResourceExhaustedError: OOM when allocating tensor with shape[4096,4096]",
    "pytorch, clean pass: OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
]


@pytest.mark.parametrize("message", OUT_OF_MEMORY)
def test_memory_that_is_out_is_a_result_of_its_own(tmp_path, message):
    assert failures.status("failed", message, tmp_path / "child.log", killed_for_memory=False) == "out of memory"


def test_the_log_of_a_process_that_aborted_tells(tmp_path):
    log = tmp_path / "child.log"
    log.write_text("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n")
    died, raised = "mxnet, clean pass: ended with signal SIGABRT (log: x)", "mxnet, clean pass: ValueError: wrong shape (log: x)"
    assert failures.status("failed", died, log, False) == "out of memory"
    assert failures.status("failed", raised, log, False) == "failed", "what it raised is told by its message"


@pytest.mark.parametrize(("killed", "expected"), [(True, "out of memory"), (False, "failed")])
def test_signal_9_is_the_kernels_where_it_counted_one(tmp_path, killed, expected):
    message = "pytorch, clean pass: ended with signal SIGKILL (log: x)"
    assert failures.status("killed", message, tmp_path / "none.log", killed) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("missing", "not available"), ("unsupported", "not available"), ("timeout", "timeout"), ("failed", "failed")],
)
def test_other_kinds(tmp_path, kind, expected):
    assert failures.status(kind, "cntk, clean pass: something", tmp_path / "none.log", False) == expected

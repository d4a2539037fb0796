"""The beginning and the end of a file, from which its format is told."""

from kernelscope.analysis import formats
from kernelscope.analysis.files.head import SIZE, read_head
from kernelscope.analysis.recordings import captures

TABLE = """==12== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.0000ms        30  100.00us  90.000us  110.00us  volta_sgemm_128x64_nn
"""


def test_a_table_after_much_output_of_the_program_is_found(tmp_path):
    path = tmp_path / "log"
    path.write_text("epoch 1: loss 0.5\n" * (3 * SIZE // 18) + TABLE)
    assert formats.detect(path).name == "nvprof-table"
    assert captures.read(path).kernels["duration_ns"].tolist() == [3_000_000]


def test_head_and_tail_do_not_overlap(tmp_path):
    path = tmp_path / "file"
    for size in (1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 5 * SIZE):
        path.write_bytes(bytes(65 + i % 26 for i in range(size)))
        head, whole = read_head(path), path.read_bytes()
        assert head.content == whole[:SIZE]
        assert head.tail == whole[SIZE:][-SIZE:]
        assert head.text == (head.content + (b"\n" + head.tail if head.tail else b"")).decode()

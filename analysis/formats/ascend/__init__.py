"""Huawei's Ascend NPUs: files of the profilers of torch_npu and MindSpore, and of msprof."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("ascend-db", "Ascend NPUs: SQLite file of torch_npu, MindSpore or msprof", f"{__name__}.database", 14, "database"),
    Format("ascend-trace", "Ascend NPUs: chrome trace (trace_view.json, msprof_*.json)", f"{__name__}.trace", 15),
    Format("ascend-kernels", "Ascend NPUs: kernel_details, op_summary, op_statistic as CSV", f"{__name__}.printed", 16),
)

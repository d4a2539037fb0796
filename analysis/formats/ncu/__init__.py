"""Nsight Compute: printed metrics of kernels, and its reports."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("ncu-report", "Nsight Compute: report (.ncu-rep), by NVIDIA's library or an installed ncu", f"{__name__}.report", 17),
    Format("ncu-csv", "Nsight Compute: `ncu --csv`, page details or raw", f"{__name__}.printed", 18),
    Format("ncu-text", "Nsight Compute: what `ncu` prints", f"{__name__}.sections", 19),
)

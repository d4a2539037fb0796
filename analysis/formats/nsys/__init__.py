"""Nsight Systems: its exports, its reports, and the tables of `nsys stats`."""

from kernelscope.analysis.formats.format import Format

RECORD_GRAPHS = "nsys profile --cuda-graph-trace=node"  # the command that records kernels inside CUDA graphs

FORMATS = (
    Format("nsys-sqlite", "Nsight Systems: SQLite export", f"{__name__}.sqlite", 10, "database"),
    Format("nsys-folder", "Nsight Systems: parquetdir or arrowdir export", f"{__name__}.folder", 11, "folder"),
    Format(
        "nsys-report",
        "Nsight Systems: report (.nsys-rep, .qdrep, .qdstrm), by an installed nsys",
        f"{__name__}.report",
        12,
        "report",
    ),
    Format("nsys-stats", "nsys stats: tables as CSV or text", f"{__name__}.stats", 120),
)

"""nvprof: its SQLite files and the tables that it prints."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("nvprof-sqlite", "nvprof: SQLite file (.nvprof, .nvvp, .sql)", f"{__name__}.sqlite", 13, "database"),
    Format("nvprof-table", "nvprof: GPU trace, summaries, API tables as CSV or text", f"{__name__}.printed", 110),
)

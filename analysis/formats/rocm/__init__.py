"""AMD's ROCm profilers: rocprofv3 (SQLite, CSV, JSON, printed summaries), rocprof and rocprofv2 (CSV), rpd (SQLite)."""

from kernelscope.analysis.formats.format import Format

FORMATS = (
    Format("rocpd", "rocprofv3's and rpd's SQLite files (.db, .rpd)", f"{__name__}.rocpd", 14, "database"),
    Format("rocprof-json", "rocprofv3 --output-format json", f"{__name__}.sdk_json", 18),
    Format("rocprof-csv", "rocprof, rocprofv2, rocprofv3: traces as CSV", f"{__name__}.trace_csv", 80),
    Format("rocprof-stats", "rocprof, rocprofv3 --stats: totals as CSV", f"{__name__}.stats_csv", 81),
    Format("rocprof-summary", "rocprofv3 --summary: totals as printed", f"{__name__}.summary", 82),
)

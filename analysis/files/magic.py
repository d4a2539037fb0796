"""First bytes by which files are told: apart from the readers, so that asking for them imports nothing else."""

GZIP_MAGIC = b"\x1f\x8b"
SQLITE_MAGIC = b"SQLite format 3\x00"
CUPTI_RECORDS_MAGIC = b"KSCUPTI\x01"

# What can only be of one kind or a few, by a text near its beginning
CONTAINERS = {
    "database": (SQLITE_MAGIC,),
    "report": (b"NVIDIA Tegra Profiler ", b"NVIDIA Nsight Systems "),
    "records": (CUPTI_RECORDS_MAGIC,),
}

"""What a rank's step is made of, by the names that results and pages share; apart, so that showing them loads no analysis."""

WAITING, TRANSFER, UNMATCHED = "waiting for ranks", "transfer", "communication, unmatched"
HOST, OTHER = "idle, by the host", "idle, else"
JOB_PARTS = ("compute", TRANSFER, WAITING, UNMATCHED, "copy", HOST, OTHER)
KERNELS, HOSTS = "kernels", "host"  # what makes a rank late

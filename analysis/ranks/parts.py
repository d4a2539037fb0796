"""What a rank's step is made of, by the names that results and pages share; apart, so that showing them loads no analysis."""

WAITING, TRANSFER, UNMATCHED = "waiting for ranks", "transfer", "communication, unmatched"
HOST, OTHER = "idle, by the host", "idle, else"
JOB_PARTS = ("compute", TRANSFER, WAITING, UNMATCHED, "copy", HOST, OTHER)
NO_LATE = "no late rank"  # a change of a job
MESSAGE = "send and receive"  # the operation of messages between two ranks
LATE = 0.25  # of all waiting: ranks that cause as much are named
IN_LAYERS = "in layers"  # where a host is, if ranges say of which
KERNELS, HOSTS = "kernels", "host"  # what makes a rank late

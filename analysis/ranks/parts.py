"""The names of the parts of a rank's step, for results and pages. A module of its own: pages need not load the analysis."""

WAITING, TRANSFER, UNMATCHED = "waiting for ranks", "transfer", "communication, unmatched"
HOST, OTHER = "idle, by the host", "idle, else"
JOB_PARTS = ("compute", TRANSFER, WAITING, UNMATCHED, "copy", HOST, OTHER)
NO_LATE = "no late rank"  # a change of a job
MESSAGE = "send and receive"  # the operation of messages between two ranks
LATE = 0.25  # of all waiting: ranks that cause as much are named
IN_LAYERS = "in layers"  # where the host is, if ranges name the layer
KERNELS, HOSTS = "kernels", "host"  # what makes a rank late

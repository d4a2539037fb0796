"""Which rank of a job this process is, by the variables that launchers set: torchrun, mpirun, srun and similar."""

import os
import re
from typing import List, Mapping, Optional, Tuple

# a launcher's variables for the rank and the number of ranks
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torch.distributed.run, accelerate, DeepSpeed
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),  # also set in a job's own script, with one task
)
FOLDER = "rank%d"  # in a run folder, for each recorded rank
_NAMED = re.compile(r"rank([0-9]+)$")


def launched(variables: Mapping[str, str] = os.environ) -> Tuple[Optional[int], Optional[int]]:
    """Return the rank and the number of ranks, as far as the environment says; a single process has no rank."""
    for rank, world in _VARIABLES:
        number, count = variables.get(rank, ""), variables.get(world, "")
        if number.isdigit():
            size = int(count) if count.isdigit() else None
            return (None, None) if size == 1 else (int(number), size)
    return None, None


def recorded(folder: str) -> List[Tuple[int, str]]:
    """Return the numbers and folders of the ranks recorded below a folder, in ascending order."""
    found = [(_NAMED.match(name), os.path.join(folder, name)) for name in os.listdir(folder)]
    return sorted((int(match.group(1)), path) for match, path in found if match is not None)


def wanted(rank: Optional[int], chosen: Optional[str]) -> bool:
    """Return whether to record a rank. chosen: "all", numbers as in "0,7", or None for rank 0 alone. A rank of None is always
    recorded.
    """
    if rank is None or chosen == "all":
        return True
    return rank in ([int(part) for part in chosen.split(",")] if chosen else [0])

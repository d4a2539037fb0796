"""Which rank of a job this process is, by what launchers leave in its environment: torchrun, mpirun, srun and their like."""

import os
import re
from typing import List, Mapping, Optional, Tuple

# a launcher's variables of the rank and of how many there are
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torch.distributed.run, accelerate, DeepSpeed
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),  # also set in a job's own script, with one task
)
FOLDER = "rank%d"  # in a run folder, of each rank that is recorded
_NAMED = re.compile(r"rank([0-9]+)$")


def launched(variables: Mapping[str, str] = os.environ) -> Tuple[Optional[int], Optional[int]]:
    """Return the rank and how many there are, as far as the environment says; one process alone has no rank."""
    for rank, world in _VARIABLES:
        number, count = variables.get(rank, ""), variables.get(world, "")
        if number.isdigit():
            size = int(count) if count.isdigit() else None
            return (None, None) if size == 1 else (int(number), size)
    return None, None


def recorded(folder: str) -> List[Tuple[int, str]]:
    """Return the numbers and folders of the ranks that were recorded below a folder, in the order of their numbers."""
    found = [(_NAMED.match(name), os.path.join(folder, name)) for name in os.listdir(folder)]
    return sorted((int(match.group(1)), path) for match, path in found if match is not None)


def wanted(rank: Optional[int], chosen: Optional[str]) -> bool:
    """Return whether a rank is recorded. chosen: "all", numbers as "0,7", or None for rank 0 alone; None is no rank."""
    if rank is None or chosen == "all":
        return True
    return rank in ([int(part) for part in chosen.split(",")] if chosen else [0])

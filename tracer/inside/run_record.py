"""run.json: always readable, complete or marked as incomplete with the reason."""

import datetime
import json
import os
from typing import Any, Dict, Optional, Union

from kernelscope.tracer.inside import durable
from kernelscope.tracer.inside.plan import RUN_SCHEMA
from kernelscope.tracer.inside.scrubbing import Scrubber

RUN_FILE = "run.json"
LOG_FILE = "log.txt"  # what the program of a trial printed


class RunRecord(object):
    """Writes the run.json of an existing folder. `record` is its content; it is on disk, marked incomplete, from the start.

    scrubber: removes what must not be written down (see scrubbing).
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"], record: Dict[str, Any], scrubber: Scrubber) -> None:
        self.folder = str(folder)
        self.scrubber = scrubber
        created = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat()
        self.record: Dict[str, Any] = {
            "schema": RUN_SCHEMA, "created": created, "complete": False, "reason": "the run did not come to its end",
            "passes": {}, "unavailable": {},
        }  # fmt: skip
        self.record.update(record)
        self.write()

    def write(self) -> None:
        """Replace run.json atomically: readers see the old or the new one, also when the disk fills up."""
        durable.write_text(os.path.join(self.folder, RUN_FILE), json.dumps(self.scrubber.of(self.record), indent=1))

    def finish(self, complete: bool, reason: Optional[str]) -> None:
        """Record whether the run is complete, and if not, why; first flush everything that the passes wrote to the disk."""
        durable.flush(self.folder)
        self.record.update(complete=complete, reason=reason)
        self.write()

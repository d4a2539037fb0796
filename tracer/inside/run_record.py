"""run.json: always readable, complete or marked as incomplete with the reason."""

import datetime
import json
import os
from typing import Any, Dict, Union

from kernelscope.tracer.inside.plan import RUN_SCHEMA
from kernelscope.tracer.inside.scrubbing import Scrubber

RUN_FILE = "run.json"
LOG_FILE = "log.txt"  # what the program of a trial printed


class RunRecord(object):
    """Writes the run.json of a folder that exists. `record` is its content; it is on disk, marked incomplete, from the start.

    scrubber: takes out what must not be written down (see scrubbing).
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
        """Replace run.json as a whole: a reader sees the old or the new one, also when the disk fills up."""
        path = os.path.join(self.folder, RUN_FILE)
        with open(path + ".new", "w", encoding="utf8") as out:
            out.write(json.dumps(self.scrubber.of(self.record), indent=1))
        os.replace(path + ".new", path)

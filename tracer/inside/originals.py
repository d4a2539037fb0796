"""Functions for our code inside a program, as they were when the first framework was imported.

Those of our modules that are loaded later would find the program's replacements. See `own` for what is kept earlier.
"""

from json import dump as dump
from json import dumps as dumps
from json import loads as loads
from threading import get_ident as get_ident
from typing import Any


def load(file: Any) -> Any:
    """Return the content of a JSON file; json.load itself would call the json module's current `loads`."""
    return loads(file.read())

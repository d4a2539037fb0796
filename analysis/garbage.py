"""No search for garbage while a capture is read: among so many objects of libraries it is slow, and it finds next to nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Do not look for garbage that has cycles meanwhile; what has none is freed as ever.

    What was made meanwhile counts as old, so that the next look for garbage among what is new does not go through all of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()

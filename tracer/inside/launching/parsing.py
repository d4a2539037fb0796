"""The parser of command lines: a name of a file or a folder is never empty, for Path("") is the folder that one works in."""

import argparse
import re
from typing import Any, Callable

_PLACE = re.compile(r"\b(?:DIR|FILE|PATH|OUT)\b")  # in what help calls an option's value


class Parser(argparse.ArgumentParser):
    """Refuses options that name a file or a folder, as their metavar says, without a name."""

    def add_argument(self, *flags: str, **how: Any) -> argparse.Action:
        """Add an argument as argparse does."""
        if flags and flags[0].startswith("-") and _PLACE.search(str(how.get("metavar"))):
            how["type"] = _not_empty(how.get("type", str))
        return super(Parser, self).add_argument(*flags, **how)


def _not_empty(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def converted(text: str) -> Any:
        if not text:
            raise argparse.ArgumentTypeError("the name is empty; write one")
        return convert(text)

    return converted

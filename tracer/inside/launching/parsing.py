"""The parser of command lines. It rejects empty names of files and folders: Path("") would be the working folder."""

import argparse
import re
from typing import Any, Callable

_PLACE = re.compile(r"\b(?:DIR|FILE|PATH|OUT)\b")  # in an option's metavar


class Parser(argparse.ArgumentParser):
    """Rejects an empty value for an option that names a file or folder according to its metavar."""

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

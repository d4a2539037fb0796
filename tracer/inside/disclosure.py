"""What of paths, command lines and environments may be written down: run folders are passed on."""

import os
import re

from kernelscope.tracer.inside.plan import RECORDED_VARIABLES

_SECRET_NAME = re.compile(r"[\w-]*(?:TOKEN|SECRET|PASS|PWD|CREDENTIAL|KEY|AUTH|COOKIE)[\w-]*", re.IGNORECASE)
_SECRET_OPTION = re.compile(_SECRET_NAME.pattern + "=", re.IGNORECASE)  # NAME=VALUE, LABEL:NAME=VALUE, --name=value
# Of an option that has its value behind it the last word must say it: --tokens 512 and --passes rerun are no secrets.
_SECRET_WORD = re.compile(
    r"--?(?:[\w-]*[-_])?(?:TOKEN|SECRET|PASS|PASSWD|PASSWORD|PWD|CREDENTIALS?|(?:API)?KEY|AUTH|COOKIE)", re.IGNORECASE
)
HIDDEN = "(not recorded)"


def recorded(variables, chosen=None):
    """Return the variables that may be written down and are set, and those that the user chose for this run.

    Of a chosen variable whose name looks like that of a secret only the name is written down.
    """
    found = {name: variables[name] for name in RECORDED_VARIABLES if name in variables}
    for name, value in (chosen or {}).items():
        found[name] = HIDDEN if _SECRET_NAME.search(name) else without_home(value)
    return found


def command(parts):
    """Return a command line as it may be written down: without the home folder and the values of secrets."""
    return [without_home(_without_secret(part, before)) for before, part in zip([""] + list(parts), parts)]


def _without_secret(part, before):
    """Return an argument without its value if it is --SECRET=VALUE, SECRET=VALUE behind --env, or VALUE behind --SECRET."""
    if _SECRET_WORD.fullmatch(before) and not part.startswith("-"):
        return HIDDEN
    match = _SECRET_OPTION.search(part) if part.startswith("--") or before.startswith("--e") else None
    return part[: match.end()] + HIDDEN if match else part


def without_home(text):
    """Return the text with the home folder written as ~: run folders are passed on, user names are not."""
    home = os.path.expanduser("~")
    return text.replace(home + os.sep, "~" + os.sep) if home not in ("/", "~", "") else text

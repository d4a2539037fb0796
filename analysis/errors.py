"""The error that analyses raise for unusable input: one line that names the file, the place and the remedy."""


class EvidenceError(Exception):
    """A file or table cannot be read as what it should be.

    The message is one line of visible text, whatever the file contains: control characters are shown as escapes.
    """

    def __init__(self, message: str):
        super().__init__("".join(_visible(character) for character in message.strip()))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character in "\n\r\t" else character.encode("unicode_escape").decode("ascii")

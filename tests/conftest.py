"""What holds for all tests."""

import os

# pytest-xdist tells its workers how wide the terminal is; what commands print into pipes must not depend on it
os.environ.pop("COLUMNS", None)

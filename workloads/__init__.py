"""Networks and their loops, written as each framework's users would write them (Python 3.6+, the framework and its numpy)."""

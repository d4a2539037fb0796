"""Networks and training loops as each framework's users would write them (Python 3.6+, the framework and its numpy)."""

"""Where the time of a step goes, in parts that add up to it."""

"""What a device did with its time: occupancy, tensor cores, roofline, overlap, copies, memory. One module each.

Every function takes a Trace and returns a pandas table. Where a table is of kernels or copies, its durations add up to those of
all kernels or copies, in integer ns: what is not known of some of them is a row with the reason, never left out and never 0.
"""

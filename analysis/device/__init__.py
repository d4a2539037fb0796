"""How a device spent its time: occupancy, tensor cores, roofline, overlap, copies, memory. One module each.

Every function takes a Trace and returns a pandas table. The durations in a table of kernels or copies add up to those of all
kernels or copies, in integer ns: unknown values are rows with the reason, never left out and never 0.
"""

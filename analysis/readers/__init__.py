"""Readers of raw profiler output: one module a format, each turning files into tables without interpreting them."""

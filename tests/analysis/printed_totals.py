"""Totals as nvprof prints them, for tests of what is made of captures without a timeline."""

HEAD = """==7== NVPROF is profiling process 7, command: ./app
==7== Profiling application: ./app
==7== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
"""
FIRST = " GPU activities:  "


def text_of(work, calls=()):
    """Return what nvprof prints of work and calls: (name, count, ms in all) each."""

    def rows(first, table):
        return [
            f"{first if not number else ' ' * len(first)}50.00%  {ms:.4f}ms  {count}  {ms / count:.6f}ms  "
            f"{ms / count:.6f}ms  {ms / count:.6f}ms  {name}"
            for number, (name, count, ms) in enumerate(table)
        ]

    return HEAD + "\n".join([*rows(FIRST, work), *rows("      API calls:  ", calls)]) + "\n"

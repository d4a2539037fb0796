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
        whole = sum(ms for _, _, ms in table)
        lines = []
        for number, (name, count, ms) in enumerate(table):
            each = f"{ms / count:.6f}ms  " * 3
            lines.append(f"{' ' * len(first) if number else first}{100 * ms / whole:.2f}%  {ms:.4f}ms  {count}  {each}{name}")
        return lines

    return HEAD + "\n".join([*rows(FIRST, work), *rows("      API calls:  ", calls)]) + "\n"

"""How much memory this process has resident."""


def resident():
    """Return peak and present resident memory in bytes from /proc, or nothing where there is no /proc."""
    found = {}
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith(("VmHWM:", "VmRSS:")):
                    name = {"VmHWM": "peak_resident_bytes", "VmRSS": "resident_bytes"}[line[:5]]
                    found[name] = int(line.split()[1]) * 1024
    except OSError:
        pass
    return found

"""Take a GPU's memory but for so many bytes, say how much was taken, and hold it until stdin ends: python hog.py LEAVE."""

import ctypes
import sys


def main(leave):
    """Return the exit status: 1 with CUDA's error when memory cannot be taken."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, free, total, taken = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    for call in (
        lambda: cuda.cuInit(0),
        lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        lambda: cuda.cuCtxSetCurrent(context),
        lambda: cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),
        lambda: cuda.cuMemAlloc_v2(ctypes.byref(taken), ctypes.c_size_t(max(free.value - leave, 1))),
    ):
        status = call()
        if status:
            print(f"CUDA error {status}", flush=True)
            return 1
    print(f"taken {free.value - leave} of {total.value}", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

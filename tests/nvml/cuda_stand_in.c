/* Two devices in the place of libcuda.so.1; the second tells no PCI address. */
#include <string.h>

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *out) { *out = 2; return 0; }
int cuDeviceGet(int *out, int index) { *out = index; return 0; }
int cuDeviceGetPCIBusId(char *out, int size, int device) {
    if (device) return 1;
    strncpy(out, "0000:3D:00.0", (unsigned)size);
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *out, int device) {
    memset(out, device ? 0xab : 0x11, 16);
    return 0;
}

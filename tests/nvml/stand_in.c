/* A stand-in for libnvidia-ml.so.1 that plays a script, so that the real pynvml can be tested on machines without a GPU.
 *
 * The script is the file named by NVML_STAND_IN, one statement a line:
 *   origin NS                       CLOCK_MONOTONIC at which the curves begin
 *   init CODE                       what nvmlInitWithFlags returns
 *   device KEY VALUE                a new GPU begins with "device uuid ..."; further keys describe the last one:
 *     uuid name pci capability temperature clock memory
 *     power LOW_MW HIGH_MW PERIOD_MS   square wave, high in the first half of each period
 *     update POWER_MS ENERGY_MS        how often the power field and the energy counter change
 *     process PID BYTES                a process with memory on this GPU
 *     mig UUID                         an instance; the GPU is then in MIG mode
 *     error FUNCTION CODE              what this function returns for this GPU (a field's code as field:NUMBER)
 *     lost N                           NVML_ERROR_GPU_IS_LOST (15) from every function once utilisation was asked N times
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 8
#define NOT_SUPPORTED 3
#define LOST 15

typedef struct { char name[64]; int code; } Fault;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu, compute; } Process;
typedef struct Device {
    char uuid[128], name[128], pci[128];
    int major, minor, mig_count, faults, processes, is_instance;
    unsigned temperature, clock;
    unsigned long long memory;
    double low, high, period_ms, power_ms, energy_ms;
    int lost_after, asked;
    Fault fault[16];
    Process process[8];
    struct Device *parent, *mig[MOST];
} Device;

static Device devices[MOST];
static int count, init_code;
static long long origin;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((long long)t.tv_sec * 1000000000LL + t.tv_nsec - origin) / 1e6;
}

static Device *instance(Device *parent, const char *uuid) {
    Device *made = calloc(1, sizeof *made);
    *made = *parent;
    made->mig_count = 0;
    made->is_instance = 1;
    made->parent = parent;
    snprintf(made->uuid, sizeof made->uuid, "%s", uuid);
    return made;
}

static void set(Device *d, const char *key, const char *text) {
    if (!strcmp(key, "name")) snprintf(d->name, sizeof d->name, "%s", text);
    else if (!strcmp(key, "pci")) snprintf(d->pci, sizeof d->pci, "%s", text);
    else if (!strcmp(key, "capability")) sscanf(text, "%d.%d", &d->major, &d->minor);
    else if (!strcmp(key, "temperature")) d->temperature = (unsigned)atoi(text);
    else if (!strcmp(key, "clock")) d->clock = (unsigned)atoi(text);
    else if (!strcmp(key, "memory")) d->memory = strtoull(text, NULL, 10);
    else if (!strcmp(key, "power")) sscanf(text, "%lf %lf %lf", &d->low, &d->high, &d->period_ms);
    else if (!strcmp(key, "update")) sscanf(text, "%lf %lf", &d->power_ms, &d->energy_ms);
    else if (!strcmp(key, "lost")) d->lost_after = atoi(text);
    else if (!strcmp(key, "mig")) { d->mig[d->mig_count] = instance(d, text); d->mig_count++; }
    else if (!strcmp(key, "error")) { sscanf(text, "%63s %d", d->fault[d->faults].name, &d->fault[d->faults].code); d->faults++; }
    else if (!strcmp(key, "process")) {
        sscanf(text, "%u %llu", &d->process[d->processes].pid, &d->process[d->processes].bytes);
        d->processes++;
    }
}

static void read_script(void) {
    char line[256], key[32], text[128];
    FILE *file = fopen(getenv("NVML_STAND_IN") ? getenv("NVML_STAND_IN") : "", "r");
    count = 0;
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "origin %lld", &origin) == 1 || sscanf(line, "init %d", &init_code) == 1) continue;
        if (sscanf(line, "device %31s %127[^\n]", key, text) != 2) continue;
        if (!strcmp(key, "uuid")) {
            Device *d = &devices[count++];
            memset(d, 0, sizeof *d);
            snprintf(d->uuid, sizeof d->uuid, "%s", text);
            d->power_ms = d->energy_ms = 100;
            d->period_ms = 1;
        } else if (count) set(&devices[count - 1], key, text);
    }
    fclose(file);
}

/* What a function returns for a device before it does its work. */
static int refused(Device *d, const char *function) {
    Device *whole = d->parent ? d->parent : d;
    if (whole->lost_after && whole->asked >= whole->lost_after) return LOST;
    for (int i = 0; i < d->faults; i++)
        if (!strcmp(d->fault[i].name, function)) return d->fault[i].code;
    return 0;
}

#define CHECK() do { int code = refused(d, __func__); if (code) return code; } while (0)
#define PHYSICAL() do { if (d->is_instance) return NOT_SUPPORTED; } while (0)

/* mW of the curve, averaged over the update that ended last; one mW more every second time, so that each update shows. */
static unsigned power(Device *d) {
    long long update = (long long)(now_ms() / d->power_ms);
    double at = update * d->power_ms, phase = at - (long long)(at / d->period_ms) * d->period_ms;
    return (unsigned)(phase < d->period_ms / 2 ? d->high : d->low) + (unsigned)(update & 1);
}

/* mJ of the curve up to the counter's last update. */
static unsigned long long energy(Device *d) {
    double until = (long long)(now_ms() / d->energy_ms) * d->energy_ms;
    double whole = (long long)(until / d->period_ms), rest = until - whole * d->period_ms;
    double high = whole * d->period_ms / 2 + (rest < d->period_ms / 2 ? rest : d->period_ms / 2);
    return (unsigned long long)((d->high * high + d->low * (until - high)) / 1000.0);
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; init_code = 0; read_script(); return init_code; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { snprintf(out, size, "%s", "550.00-stand-in"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = (unsigned)count; return 0; }
const char *nvmlErrorString(int code) {
    switch (code) {
        case 3: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case 9: return "Driver Not Loaded";
        case 15: return "GPU is lost";
        default: return "Error";
    }
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    if ((int)index >= count) return 2;
    *out = &devices[index];
    return refused(*out, __func__);
}
int nvmlDeviceGetName(Device *d, char *out, unsigned size) { CHECK(); snprintf(out, size, "%s", d->name); return 0; }
int nvmlDeviceGetUUID(Device *d, char *out, unsigned size) { CHECK(); snprintf(out, size, "%s", d->uuid); return 0; }
int nvmlDeviceGetPciInfo_v3(Device *d, char *out) {
    CHECK(); /* struct nvmlPciInfo_t: char[16], five unsigned, char[32] */
    memset(out, 0, 68);
    snprintf(out + 36, 32, "%.31s", d->pci);
    return 0;
}
int nvmlDeviceGetMemoryInfo(Device *d, unsigned long long *out) {
    CHECK();
    out[0] = 2 * d->memory; out[1] = d->memory; out[2] = d->memory;
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(Device *d, int *major, int *minor) { CHECK(); *major = d->major; *minor = d->minor; return 0; }
int nvmlDeviceGetMigMode(Device *d, unsigned *current, unsigned *pending) {
    CHECK(); PHYSICAL();
    *current = *pending = d->mig_count > 0;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *out) { CHECK(); *out = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **out) {
    CHECK();
    /* the first place is empty, as on a real GPU whose first instance was destroyed */
    if (index == 0 || (int)index > d->mig_count) return 6;
    *out = d->mig[index - 1];
    return 0;
}
int nvmlDeviceGetPowerUsage(Device *d, unsigned *out) { CHECK(); PHYSICAL(); *out = power(d); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(Device *d, unsigned long long *out) { CHECK(); PHYSICAL(); *out = energy(d); return 0; }
int nvmlDeviceGetUtilizationRates(Device *d, unsigned *out) {
    CHECK(); PHYSICAL();
    d->asked++;
    out[0] = 75; out[1] = 25;
    return 0;
}
int nvmlDeviceGetClockInfo(Device *d, int kind, unsigned *out) { CHECK(); *out = d->clock + (unsigned)kind; return 0; }
int nvmlDeviceGetTemperature(Device *d, int sensor, unsigned *out) { CHECK(); (void)sensor; *out = d->temperature; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *d, unsigned long long *out) { CHECK(); *out = 4; return 0; }
int nvmlDeviceGetPcieThroughput(Device *d, int counter, unsigned *out) {
    CHECK();
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    *out = counter ? 2000 : 1000;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *size, Process *out) {
    CHECK();
    if (!d->processes) { *size = 0; return 0; }
    if ((int)*size < d->processes) { *size = (unsigned)d->processes; return 7; }
    memcpy(out, d->process, sizeof(Process) * (unsigned)d->processes);
    *size = (unsigned)d->processes;
    return 0;
}

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, code;
    union { double d; unsigned u; unsigned long long ull; } value;
} FieldValue;

int nvmlDeviceGetFieldValues(Device *d, int size, FieldValue *out) {
    CHECK();
    for (int i = 0; i < size; i++) {
        char name[32];
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        snprintf(name, sizeof name, "field:%u", out[i].field);
        out[i].timestamp = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
        out[i].code = (uint32_t)refused(d, name);
        out[i].type = 1; /* unsigned int */
        if (out[i].field == 186) out[i].value.u = power(d);
        else if (out[i].field == 185) out[i].value.u = (unsigned)((d->low + d->high) / 2);
        else if (out[i].field == 138 && out[i].scope == 0xffffffffu) { out[i].type = 3; out[i].value.ull = 5; }
        else out[i].code = NOT_SUPPORTED;
    }
    return 0;
}

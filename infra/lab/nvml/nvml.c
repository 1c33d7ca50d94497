/* libnvidia-ml.so.1 of the lab's nodes: answers NVML calls from state files, so that whatever uses NVML (nvidia-ml-py,
 * nvidia-smi, exporters) runs unchanged on a machine without a GPU and sees the faults that the lab injects.
 *
 * In:  the node's hardware, one file gpu<N> per GPU with lines `key=value` (infra/lab/gpus.py writes them), under
 *      HARDWARE. Files are read again at every call: a change shows at once, nothing is cached.
 *      The driver's own state, which ends with the node's power: one empty file persistence<N> under DRIVER_STATE.
 *      DRIVER_VERSION and CUDA_VERSION (1000 * major + 10 * minor) are given to the compiler: they are the package's.
 * Out: the NVML C ABI. Prototypes come from NVIDIA's own nvml.h, so a wrong signature does not compile.
 *
 * Rules: no HARDWARE folder answers NVML_ERROR_DRIVER_NOT_LOADED. A key that is missing answers NVML_ERROR_NOT_SUPPORTED,
 *        like hardware without the feature. `nvlink.7.state` overrides `nvlink.state`. Appending a line `xid=79` (also
 *        `sbe=`, `dbe=`) is one event. The product name that says SIMULATED is a key like the others.
 * Faults: lost=1, error=N, error.<function>=N, delay_ms=N, hang=1 in a GPU's file, or in a file `driver` for calls that
 *        name no GPU; init_error=N there makes nvmlInit fail.
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS /* declare nvmlInit and nvmlInit_v2 both; without it one hides the other */
#include <nvml.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HARDWARE "/run/bringup-lab-hardware/gpu"      /* $BRINGUP_NVML_HARDWARE overrides */
#define DRIVER_STATE "/run/bringup-lab-driver"        /* $BRINGUP_NVML_DRIVER_STATE overrides */
#define MAX_GPUS 32
#define NVML_VERSION "13." DRIVER_VERSION              /* nvmlSystemGetNVMLVersion: CUDA major, then the driver */

typedef nvmlReturn_t R;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char text[16384]; } State;

struct nvmlDevice_st { u32 index; char file[16]; };
struct nvmlEventSet_st { int inotify; struct { u64 types; u32 seen; } gpu[MAX_GPUS]; };

static struct nvmlDevice_st gpus[MAX_GPUS]; /* handles point here: valid in every thread, for the life of the process */
static u32 gpu_count;
static int users; /* nvmlInit minus nvmlShutdown; changed with __atomic only */

#define TRY(x) do { R rc__ = (x); if (rc__) return rc__; } while (0)
#define NEED(p) do { if (!(p)) return NVML_ERROR_INVALID_ARGUMENT; } while (0)

/* ---- state files --------------------------------------------------------------------------------------------- */

static const char *or_default(const char *variable, const char *otherwise)
{ const char *v = getenv(variable); return v && *v ? v : otherwise; }
static const char *hardware(void) { return or_default("BRINGUP_NVML_HARDWARE", HARDWARE); }
static const char *driver_state(void) { return or_default("BRINGUP_NVML_DRIVER_STATE", DRIVER_STATE); }

static int load(const char *file, State *s)
{
    char path[4096]; snprintf(path, sizeof path, "%s/%s", hardware(), file); int fd = open(path, O_RDONLY | O_CLOEXEC);
    s->text[0] = 0;
    if (fd < 0) return 0;
    size_t n = 0;
    for (ssize_t r; (r = read(fd, s->text + n, sizeof s->text - 1 - n)) > 0;) n += (size_t)r;
    close(fd); s->text[n] = 0; return 1;
}

/* The value of the first line `key=...` at or after p; its length in *len. NULL when there is none. */
static const char *find_from(const char *p, const char *key, size_t *len)
{
    for (size_t k = strlen(key); p && *p; p = strchr(p, '\n'), p = p ? p + 1 : p)
        if (!strncmp(p, key, k) && p[k] == '=') { *len = strcspn(p + k + 1, "\r\n"); return p + k + 1; }
    return NULL;
}

static R num(const State *s, const char *key, u64 *out)
{
    size_t len; const char *v = find_from(s->text, key, &len);
    if (!v) return NVML_ERROR_NOT_SUPPORTED;
    *out = strtoull(v, NULL, 0); return NVML_SUCCESS;
}

static u64 num_or(const State *s, const char *key, u64 fallback) { u64 v; return num(s, key, &v) ? fallback : v; }

static R str(const State *s, const char *key, char *out, u32 room)
{
    size_t len; const char *v = find_from(s->text, key, &len);
    if (!out) return NVML_ERROR_INVALID_ARGUMENT;
    if (!v) return NVML_ERROR_NOT_SUPPORTED;
    if (len + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, v, len); out[len] = 0; return NVML_SUCCESS;
}

/* A per-link (or per-sensor) number: the key `head.N.tail` if it is there, else `head.tail`. */
static R num_of(const State *s, const char *head, u32 n, const char *tail, u64 *out)
{
    char key[96]; snprintf(key, sizeof key, "%s.%u.%s", head, n, tail);
    if (!num(s, key, out)) return NVML_SUCCESS;
    snprintf(key, sizeof key, "%s.%s", head, tail); return num(s, key, out);
}

/* ---- the gate every call passes: initialised? alive? slow? told to fail? ------------------------------------- */

static void sleep_ms(u64 ms) /* not for 0: even nanosleep(0) costs 50 us, more than all the rest of a call */
{ struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}; if (ms) nanosleep(&t, NULL); }

static R gate(const char *file, const char *function, State *s)
{
    char key[96]; u64 code;
    for (;; sleep_ms(50)) { /* hang=1 blocks until the key is gone; unlike a real hang, a signal can end it */
        if (!load(file, s) && strcmp(file, "driver")) return NVML_ERROR_GPU_IS_LOST;
        if (!num_or(s, "hang", 0)) break;
    }
    sleep_ms(num_or(s, "delay_ms", 0));
    if (num_or(s, "lost", 0)) return NVML_ERROR_GPU_IS_LOST;
    snprintf(key, sizeof key, "error.%s", function);
    if (!num(s, key, &code) || !num(s, "error", &code)) return (R)code;
    return NVML_SUCCESS;
}

static R enter(nvmlDevice_t d, const char *function, State *s)
{
    if (__atomic_load_n(&users, __ATOMIC_SEQ_CST) <= 0) return NVML_ERROR_UNINITIALIZED;
    if (d < gpus || d >= gpus + gpu_count) return NVML_ERROR_INVALID_ARGUMENT;
    return gate(d->file, function, s);
}

static R enter_system(const char *function, State *s)
{
    if (__atomic_load_n(&users, __ATOMIC_SEQ_CST) <= 0) return NVML_ERROR_UNINITIALIZED;
    return gate("driver", function, s);
}

#define ENTER(d) State s; TRY(enter((d), __func__, &s))
#define ENTER_SYSTEM State s; TRY(enter_system(__func__, &s))

/* The plain getters: one line each. */
#define NUMBER(fn, type, key) R fn(nvmlDevice_t d, type *out) GET(type, num(&s, key, &v))
#define PAIR(fn, type, key1, key2) R fn(nvmlDevice_t d, type *a, type *b) { u64 x, y; NEED(a && b); ENTER(d); \
    TRY(num(&s, key1, &x)); TRY(num(&s, key2, &y)); *a = (type)x; *b = (type)y; return NVML_SUCCESS; }
#define GET(type, call) { u64 v; NEED(out); ENTER(d); TRY(call); *out = (type)v; return NVML_SUCCESS; }
#define TEXT(fn, key) R fn(nvmlDevice_t d, char *out, u32 room) { ENTER(d); return str(&s, key, out, room); }

/* ---- library, driver, handles -------------------------------------------------------------------------------- */

R nvmlInitWithFlags(u32 flags)
{
    State s; u64 code; struct stat folder; (void)flags;
    if (stat(hardware(), &folder)) return NVML_ERROR_DRIVER_NOT_LOADED;
    TRY(gate("driver", "nvmlInit", &s));
    if (!num(&s, "init_error", &code)) return (R)code;
    if (__atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST) == 0) { /* like the driver, count GPUs once */
        u32 n = 0;
        for (; n < MAX_GPUS; n++) {
            gpus[n].index = n;
            snprintf(gpus[n].file, sizeof gpus[n].file, "gpu%u", n);
            if (!load(gpus[n].file, &s)) break;
        }
        gpu_count = n;
    }
    return NVML_SUCCESS;
}

R nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
R nvmlInit(void) { return nvmlInitWithFlags(0); }

R nvmlShutdown(void)
{
    if (__atomic_fetch_sub(&users, 1, __ATOMIC_SEQ_CST) > 0) return NVML_SUCCESS;
    __atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST); return NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(R rc)
{
    static const char *text[] = {"Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
        "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch.",
        "In use by another client", "Insufficient Memory", "No data", "ECC not supported for vGPU",
        "Insufficient resources", "Frequency not supported", "Argument version mismatch"};
    return (size_t)rc < sizeof text / sizeof *text ? text[rc] : "Unknown Error";
}

static R copy(const char *text, char *out, u32 room)
{ NEED(out); if (strlen(text) + 1 > room) return NVML_ERROR_INSUFFICIENT_SIZE; strcpy(out, text); return NVML_SUCCESS; }
R nvmlSystemGetDriverVersion(char *out, u32 room) { ENTER_SYSTEM; return copy(DRIVER_VERSION, out, room); }
R nvmlSystemGetNVMLVersion(char *out, u32 room) { ENTER_SYSTEM; return copy(NVML_VERSION, out, room); }
R nvmlSystemGetCudaDriverVersion_v2(int *out) { NEED(out); ENTER_SYSTEM; *out = CUDA_VERSION; return NVML_SUCCESS; }
R nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

R nvmlDeviceGetCount_v2(u32 *out) { NEED(out); ENTER_SYSTEM; *out = gpu_count; return NVML_SUCCESS; }
R nvmlDeviceGetCount(u32 *out) { return nvmlDeviceGetCount_v2(out); }

R nvmlDeviceGetHandleByIndex_v2(u32 index, nvmlDevice_t *out)
{ NEED(out && index < gpu_count); ENTER(&gpus[index]); *out = &gpus[index]; return NVML_SUCCESS; }
R nvmlDeviceGetHandleByIndex(u32 index, nvmlDevice_t *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static int parse_bdf(const char *t, u32 *domain, u32 *bus, u32 *dev) /* "00000000:18:00.0", "0000:18:00.0" or "18:00.0" */
{
    if (sscanf(t, "%x:%x:%x", domain, bus, dev) == 3) return 1;
    *domain = 0; return sscanf(t, "%x:%x", bus, dev) == 2;
}

static R handle_by(const char *key, const char *want, nvmlDevice_t *out, const char *function)
{
    State s; char have[96]; u32 a[3], b[3]; NEED(want && out); TRY(enter_system(function, &s));
    for (u32 i = 0; i < gpu_count; i++) {
        if (!load(gpus[i].file, &s) || str(&s, key, have, sizeof have)) continue;
        if (strcasecmp(have, want) && !(!strcmp(key, "pci.bus_id") && parse_bdf(have, a, a + 1, a + 2) &&
                                        parse_bdf(want, b, b + 1, b + 2) && !memcmp(a, b, sizeof a))) continue;
        TRY(enter(&gpus[i], function, &s));
        *out = &gpus[i];
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}
R nvmlDeviceGetHandleByUUID(const char *v, nvmlDevice_t *out) { return handle_by("uuid", v, out, __func__); }
R nvmlDeviceGetHandleBySerial(const char *v, nvmlDevice_t *out) { return handle_by("serial", v, out, __func__); }
R nvmlDeviceGetHandleByPciBusId_v2(const char *v, nvmlDevice_t *out) { return handle_by("pci.bus_id", v, out, __func__); }
R nvmlDeviceGetHandleByPciBusId(const char *v, nvmlDevice_t *out) { return handle_by("pci.bus_id", v, out, __func__); }

/* ---- identity ------------------------------------------------------------------------------------------------ */

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "part_number")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom")
NUMBER(nvmlDeviceGetMinorNumber, u32, "minor")
NUMBER(nvmlDeviceGetModuleId, u32, "module_id")
NUMBER(nvmlDeviceGetBrand, nvmlBrandType_t, "brand")
NUMBER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, "architecture")
PAIR(nvmlDeviceGetCudaComputeCapability, int, "cuda_capability.major", "cuda_capability.minor")
R nvmlDeviceGetIndex(nvmlDevice_t d, u32 *out) { NEED(out); ENTER(d); *out = d->index; return NVML_SUCCESS; }

/* As on an HGX baseboard: four GPUs below each of two CPU sockets. NVIDIA's device plugin asks it to choose GPUs for a pod. */
R nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t d, nvmlDevice_t e, nvmlGpuTopologyLevel_t *out)
{
    NEED(e); NEED(out); ENTER(d);
    *out = d->index == e->index ? NVML_TOPOLOGY_INTERNAL : d->index / 4 == e->index / 4 ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

static R fill_pci(const char *bdf, u64 id, u64 subsystem, nvmlPciInfo_t *p)
{
    memset(p, 0, sizeof *p);
    if (!parse_bdf(bdf, &p->domain, &p->bus, &p->device)) return NVML_ERROR_UNKNOWN;
    snprintf(p->busId, sizeof p->busId, "%08X:%02X:%02X.0", p->domain, p->bus & 0xff, p->device & 0xff);
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
    p->pciDeviceId = (u32)id; p->pciSubSystemId = (u32)subsystem; return NVML_SUCCESS;
}
R nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out)
{
    char bdf[32]; NEED(out); ENTER(d); TRY(str(&s, "pci.bus_id", bdf, sizeof bdf));
    return fill_pci(bdf, num_or(&s, "pci.device_id", 0), num_or(&s, "pci.subsystem_id", 0), out);
}
R nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, nvmlPciInfo_t *out) { return nvmlDeviceGetPciInfo_v3(d, out); }
R nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *out) { return nvmlDeviceGetPciInfo_v3(d, out); }

/* ---- memory, load, heat, power, clocks, PCIe ----------------------------------------------------------------- */

static R memory(const State *s, u64 *total, u64 *reserved, u64 *used)
{
    TRY(num(s, "memory.total", total)); TRY(num(s, "memory.used", used)); *reserved = num_or(s, "memory.reserved", 0);
    return *reserved + *used > *total ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}
R nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) /* v1 counts the reserved part as used */
{
    u64 reserved; NEED(m); ENTER(d); TRY(memory(&s, &m->total, &reserved, &m->used)); m->used += reserved;
    m->free = m->total - m->used; return NVML_SUCCESS;
}
R nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
    NEED(m);
    if (m->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    ENTER(d); TRY(memory(&s, &m->total, &m->reserved, &m->used)); m->free = m->total - m->reserved - m->used; return NVML_SUCCESS;
}

R nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u)
{
    u64 gpu, mem; NEED(u); ENTER(d); TRY(num(&s, "utilization.gpu", &gpu)); TRY(num(&s, "utilization.memory", &mem));
    u->gpu = (u32)gpu; u->memory = (u32)mem; return NVML_SUCCESS;
}

R nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t sensor, u32 *out)
{ NEED(sensor == NVML_TEMPERATURE_GPU); GET(u32, num(&s, "temperature.gpu", &v)) }
R nvmlDeviceGetTemperatureV(nvmlDevice_t d, nvmlTemperature_t *t)
{
    u64 v; NEED(t && t->sensorType == NVML_TEMPERATURE_GPU);
    if (t->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    ENTER(d); TRY(num(&s, "temperature.gpu", &v)); t->temperature = (int)v; return NVML_SUCCESS;
}

/* A number picked by an enum: key = prefix + names[which]. Out-of-range is the caller's mistake. */
static R pick(const State *s, const char *prefix, const char *const *names, u32 n, u32 which, u32 *out)
{
    char key[96]; u64 v; NEED(out && which < n); snprintf(key, sizeof key, "%s%s", prefix, names[which]); TRY(num(s, key, &v));
    *out = (u32)v; return NVML_SUCCESS;
}
static const char *const thresholds[] = {"shutdown", "slowdown", "mem_max", "gpu_max"};
static const char *const domains[] = {"graphics", "sm", "memory", "video"};
R nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, nvmlTemperatureThresholds_t which, u32 *out)
{ ENTER(d); return which > 3 ? NVML_ERROR_NOT_SUPPORTED : pick(&s, "temperature.threshold.", thresholds, 4, which, out); }
R nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, u32 *out) { ENTER(d); return pick(&s, "clock.", domains, 4, type, out); }
R nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t type, u32 *out) { ENTER(d); return pick(&s, "clock.max.", domains, 4, type, out); }
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, "clock.event_reasons")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "clock.event_reasons")
NUMBER(nvmlDeviceGetSupportedClocksEventReasons, u64, "clock.event_reasons.supported")
NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t, "pstate")

NUMBER(nvmlDeviceGetPowerUsage, u32, "power.usage_mw")
NUMBER(nvmlDeviceGetPowerManagementLimit, u32, "power.limit_mw")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, u32, "power.default_limit_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, "power.enforced_limit_mw")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, u32, "power.min_limit_mw", "power.max_limit_mw")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, "power.energy_mj")

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, u32, "pcie.gen")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, u32, "pcie.width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, u32, "pcie.max_gen")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, u32, "pcie.max_width")
NUMBER(nvmlDeviceGetPcieReplayCounter, u32, "pcie.replay")

/* Persistence mode is the driver's, not the hardware's: it is off after every boot until somebody switches it on. */
static void persistence_file(nvmlDevice_t d, char *path, size_t room)
{ snprintf(path, room, "%s/persistence%u", driver_state(), d->index); }
R nvmlDeviceGetPersistenceMode(nvmlDevice_t d, nvmlEnableState_t *out)
{
    char path[4096]; NEED(out); ENTER(d); persistence_file(d, path, sizeof path);
    *out = access(path, F_OK) ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED; return NVML_SUCCESS;
}
R nvmlDeviceSetPersistenceMode(nvmlDevice_t d, nvmlEnableState_t mode)
{
    char path[4096]; ENTER(d); persistence_file(d, path, sizeof path);
    if (mode == NVML_FEATURE_DISABLED) return unlink(path) && errno != ENOENT ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
    if (mkdir(driver_state(), 0755) && errno != EEXIST) return NVML_ERROR_NO_PERMISSION;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return NVML_ERROR_NO_PERMISSION;
    close(fd); return NVML_SUCCESS;
}
NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, "compute_mode")
PAIR(nvmlDeviceGetMigMode, u32, "mig.current", "mig.pending")
/* No GPU can be divided, and no handle is of a part of one. NVIDIA's container toolkit asks both. */
static R none(nvmlDevice_t d, u32 *out) { NEED(out); ENTER(d); *out = 0; return NVML_SUCCESS; }
R nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, u32 *out) { return none(d, out); }
R nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, u32 *out) { return none(d, out); }

/* ---- memory errors and row remapping ------------------------------------------------------------------------- */

static const char *const location[] = {"l1", "l2", "dram", "register", "texture", "texture_shm", "cbu", "sram"};

static R ecc(const State *s, u32 type, u32 counter, u32 where, u64 *out)
{
    char key[96];
    snprintf(key, sizeof key, "ecc.%s.%s.%s", type ? "uncorrected" : "corrected", counter ? "aggregate" : "volatile", location[where]);
    return num(s, key, out);
}
R nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                  nvmlMemoryLocation_t where, u64 *out)
{ NEED(out && type < 2 && counter < 2 && where < NVML_MEMORY_LOCATION_COUNT); ENTER(d); return ecc(&s, type, counter, where, out); }
R nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, u64 *out)
{
    u64 v, found = 0, sum = 0; NEED(out && type < 2 && counter < 2); ENTER(d);
    for (u32 w = 0; w < NVML_MEMORY_LOCATION_COUNT; w++)
        if (!ecc(&s, type, counter, w, &v)) { sum += v; found++; }
    if (!found) return NVML_ERROR_NOT_SUPPORTED;
    *out = sum; return NVML_SUCCESS;
}
PAIR(nvmlDeviceGetEccMode, nvmlEnableState_t, "ecc.current", "ecc.pending")

R nvmlDeviceGetRemappedRows(nvmlDevice_t d, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed)
{
    static const char *const names[] = {"corrected", "uncorrected", "pending", "failed"};
    u32 *out[] = {corrected, uncorrected, pending, failed};
    ENTER(d);
    for (u32 i = 0; i < 4; i++) TRY(pick(&s, "remap.", names, 4, i, out[i]));
    return NVML_SUCCESS;
}
R nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t d, nvmlRowRemapperHistogramValues_t *h)
{
    static const char *const names[] = {"max", "high", "partial", "low", "none"};
    NEED(h);
    u32 *out[] = {&h->max, &h->high, &h->partial, &h->low, &h->none};
    ENTER(d);
    for (u32 i = 0; i < 5; i++) TRY(pick(&s, "remap.banks.", names, 5, i, out[i]));
    return NVML_SUCCESS;
}

/* ---- NVLink and the NVLink fabric ---------------------------------------------------------------------------- */

static R link_num(const State *s, u32 link, const char *tail, u64 *out)
{
    u64 count; TRY(num(s, "nvlink.count", &count));
    if (link >= count) return NVML_ERROR_INVALID_ARGUMENT;
    return num_of(s, "nvlink", link, tail, out);
}
R nvmlDeviceGetNvLinkState(nvmlDevice_t d, u32 link, nvmlEnableState_t *out)
GET(nvmlEnableState_t, link_num(&s, link, "state", &v))
R nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, u32 link, u32 *out)
GET(u32, link_num(&s, link, "version", &v))
R nvmlDeviceGetNvLinkCapability(nvmlDevice_t d, u32 link, nvmlNvLinkCapability_t which, u32 *out)
{ NEED(which < NVML_NVLINK_CAP_COUNT); u64 v; NEED(out); ENTER(d); TRY(link_num(&s, link, "capabilities", &v)); *out = v >> which & 1; return NVML_SUCCESS; }
static const char *const link_errors[] = {"error.replay", "error.recovery", "error.crc_flit", "error.crc_data", "error.ecc_data"};
R nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t d, u32 link, nvmlNvLinkErrorCounter_t which, u64 *out)
{ NEED(out && which < 5); ENTER(d); return link_num(&s, link, link_errors[which], out); }
R nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, u32 link, nvmlPciInfo_t *out)
{
    char key[32], bdf[32]; NEED(out); ENTER(d); snprintf(key, sizeof key, "nvlink.%u.remote", link);
    TRY(str(&s, key, bdf, sizeof bdf)); return fill_pci(bdf, num_or(&s, "nvlink.remote_device_id", 0), 0, out);
}
R nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t d, u32 link, nvmlPciInfo_t *out) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, out); }

R nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *f) /* v2 is v3 without its last byte */
{
    char hex[64]; u64 state; NEED(f);
    if (f->version != nvmlGpuFabricInfo_v2 && f->version != nvmlGpuFabricInfo_v3) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    ENTER(d); TRY(num(&s, "fabric.state", &state)); TRY(str(&s, "fabric.cluster_uuid", hex, sizeof hex)); const char *p = hex;
    for (int i = 0; i < NVML_GPU_FABRIC_UUID_LEN && p[0] && p[1]; i++, p += 2) {
        while (*p == '-') p++;
        sscanf(p, "%2hhx", &f->clusterUuid[i]);
    }
    f->state = (nvmlGpuFabricState_t)state; f->status = (R)num_or(&s, "fabric.status", 0);
    f->cliqueId = (u32)num_or(&s, "fabric.clique", 0); f->healthMask = (u32)num_or(&s, "fabric.health_mask", 0);
    if (f->version == nvmlGpuFabricInfo_v3) f->healthSummary = (unsigned char)num_or(&s, "fabric.health_summary", 0);
    return NVML_SUCCESS;
}

/* ---- field values: the same keys as above, so both roads agree; any other id reads the key `field.<id>` ------- */

static const struct { u32 id; nvmlValueType_t type; const char *key; } fields[] = {
    {NVML_FI_DEV_ECC_CURRENT, NVML_VALUE_TYPE_UNSIGNED_INT, "ecc.current"},
    {NVML_FI_DEV_ECC_DBE_VOL_DEV, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ecc.uncorrected.volatile.dram"},
    {NVML_FI_DEV_ECC_SBE_VOL_DEV, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ecc.corrected.volatile.dram"},
    {NVML_FI_DEV_MEMORY_TEMP, NVML_VALUE_TYPE_UNSIGNED_INT, "temperature.memory"},
    {NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "power.energy_mj"},
    {NVML_FI_DEV_POWER_INSTANT, NVML_VALUE_TYPE_UNSIGNED_INT, "power.usage_mw"},
    {NVML_FI_DEV_POWER_AVERAGE, NVML_VALUE_TYPE_UNSIGNED_INT, "power.usage_mw"},
    {NVML_FI_DEV_PCIE_REPLAY_COUNTER, NVML_VALUE_TYPE_UNSIGNED_INT, "pcie.replay"},
    {NVML_FI_DEV_REMAPPED_COR, NVML_VALUE_TYPE_UNSIGNED_INT, "remap.corrected"},
    {NVML_FI_DEV_REMAPPED_UNC, NVML_VALUE_TYPE_UNSIGNED_INT, "remap.uncorrected"},
    {NVML_FI_DEV_REMAPPED_PENDING, NVML_VALUE_TYPE_UNSIGNED_INT, "remap.pending"},
    {NVML_FI_DEV_REMAPPED_FAILURE, NVML_VALUE_TYPE_UNSIGNED_INT, "remap.failed"},
    {NVML_FI_DEV_NVLINK_LINK_COUNT, NVML_VALUE_TYPE_UNSIGNED_INT, "nvlink.count"},
    {NVML_FI_DEV_NVLINK_GET_STATE, NVML_VALUE_TYPE_UNSIGNED_INT, "nvlink.#.state"}, /* # = scopeId, the link */
    {NVML_FI_DEV_NVLINK_GET_SPEED, NVML_VALUE_TYPE_UNSIGNED_INT, "nvlink.#.speed_mbps"},
    {NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_VALUE_TYPE_UNSIGNED_INT, "recovery_action"},
};

R nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v)
{
    struct timespec t; NEED(v && n > 0); ENTER(d); clock_gettime(CLOCK_REALTIME, &t);
    for (int i = 0; i < n; i++) {
        char generic[32];
        const char *key = generic;
        u64 x = 0;
        snprintf(generic, sizeof generic, "field.%u", v[i].fieldId);
        v[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            if (fields[f].id == v[i].fieldId) { key = fields[f].key; v[i].valueType = fields[f].type; }
        v[i].nvmlReturn = strncmp(key, "nvlink.#.", 9) ? num(&s, key, &x) : link_num(&s, v[i].scopeId, key + 9, &x);
        v[i].value.ullVal = x; /* little endian: right for the unsigned int fields as well */
        v[i].timestamp = (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
        v[i].latencyUsec = 0;
    }
    return NVML_SUCCESS;
}

/* ---- processes: lines `process=PID,BYTES` -------------------------------------------------------------------- */

static R processes(const State *s, u32 *count, void *out, size_t size)
{
    u32 n = 0, room = *count, pid; u64 bytes; size_t len;
    for (const char *p = s->text; (p = find_from(p, "process", &len));) {
        if (sscanf(p, "%u,%llu", &pid, &bytes) != 2) continue;
        if (out && n < room) { /* v1 ends after usedGpuMemory; v2 and v3 add the MIG instance ids */
            nvmlProcessInfo_t info = {pid, bytes, 0xFFFFFFFF, 0xFFFFFFFF};
            memcpy((char *)out + n * size, &info, size);
        }
        n++;
    }
    *count = n; return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
#define COMPUTE(fn, type) R fn(nvmlDevice_t d, u32 *n, type *out) { NEED(n); ENTER(d); return processes(&s, n, out, sizeof *out); }
#define NO_PROCESSES(fn) R fn(nvmlDevice_t d, u32 *n, nvmlProcessInfo_t *out) { (void)out; NEED(n); ENTER(d); *n = 0; return NVML_SUCCESS; }
COMPUTE(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
COMPUTE(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
COMPUTE(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* ---- events: each appended line is delivered once to every set that registered before it was written ---------- */

static const struct { const char *key; u64 type; } events[] = {
    {"xid", nvmlEventTypeXidCriticalError}, {"sbe", nvmlEventTypeSingleBitEccError}, {"dbe", nvmlEventTypeDoubleBitEccError}};
#define EVENT_TYPES (nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError)

/* The event line number `which` (from 0): its type, its number in *data. Without one: 0, and *total = lines there. */
static u64 event_at(const State *s, u32 which, u64 *data, u32 *total)
{
    *total = 0;
    for (const char *p = s->text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : p)
        for (int e = 0; e < 3; e++)
            if (!strncmp(p, events[e].key, 3) && p[3] == '=' && (*total)++ == which) {
                *data = e ? 0 : strtoull(p + 4, NULL, 0);
                return events[e].type;
            }
    return 0;
}

R nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, u64 *out) { NEED(out); ENTER(d); *out = EVENT_TYPES; return NVML_SUCCESS; }

R nvmlEventSetCreate(nvmlEventSet_t *out)
{
    State s; NEED(out); TRY(enter_system(__func__, &s)); nvmlEventSet_t set = calloc(1, sizeof *set);
    if (!set) return NVML_ERROR_MEMORY;
    set->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (set->inotify < 0 || inotify_add_watch(set->inotify, hardware(), IN_MODIFY | IN_MOVED_TO | IN_DELETE) < 0) {
        if (set->inotify >= 0) close(set->inotify);
        free(set);
        return NVML_ERROR_OPERATING_SYSTEM;
    }
    *out = set; return NVML_SUCCESS;
}

R nvmlDeviceRegisterEvents(nvmlDevice_t d, u64 types, nvmlEventSet_t set)
{
    u64 data; u32 total; NEED(set); ENTER(d);
    if (types & ~(u64)EVENT_TYPES) return NVML_ERROR_NOT_SUPPORTED;
    event_at(&s, ~0u, &data, &total); set->gpu[d->index].types = types; set->gpu[d->index].seen = total; return NVML_SUCCESS;
}

R nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, u32 timeout_ms)
{
    struct timespec t; char sink[4096]; NEED(set && out); clock_gettime(CLOCK_MONOTONIC, &t);
    for (long long now, end = t.tv_sec * 1000LL + t.tv_nsec / 1000000 + timeout_ms;;) {
        int lost = 0;
        for (u32 i = 0; i < gpu_count; i++) {
            State s;
            u64 data, type;
            u32 total;
            if (!set->gpu[i].types) continue;
            if (!load(gpus[i].file, &s)) { lost = 1; continue; }
            while ((type = event_at(&s, set->gpu[i].seen, &data, &total))) {
                set->gpu[i].seen++;
                if (!(type & set->gpu[i].types)) continue;
                *out = (nvmlEventData_t){&gpus[i], type, data, 0xFFFFFFFF, 0xFFFFFFFF};
                return NVML_SUCCESS;
            }
            set->gpu[i].seen = total; /* the file was rewritten without its old events */
            lost |= (int)num_or(&s, "lost", 0);
        }
        if (lost) return NVML_ERROR_GPU_IS_LOST; /* after the last event: the XID comes first, as on metal */
        clock_gettime(CLOCK_MONOTONIC, &t);
        now = t.tv_sec * 1000LL + t.tv_nsec / 1000000;
        if (now >= end) return NVML_ERROR_TIMEOUT;
        struct pollfd p = {set->inotify, POLLIN, 0};
        if (poll(&p, 1, end - now > 1000000 ? 1000000 : (int)(end - now)) < 0 && errno != EINTR) return NVML_ERROR_OPERATING_SYSTEM;
        while (read(set->inotify, sink, sizeof sink) > 0) {}
    }
}
R nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *out, u32 ms) { return nvmlEventSetWait_v2(set, out, ms); }
R nvmlEventSetFree(nvmlEventSet_t set) { NEED(set); close(set->inotify); free(set); return NVML_SUCCESS; }

/* Every function of nvml.h that is not above is an alias of this one (infra/lab/nvidia.py), as on metal without it. */
R nvml_not_supported(void) { return users > 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; }

/* nvidia-smi of the lab's nodes: says what libnvidia-ml.so.1 answers, in the two forms that scripts look at.
 *
 *     nvidia-smi       the line with the driver's and CUDA's version, then one line per GPU
 *     nvidia-smi -L    one line per GPU: GPU 0: NAME (UUID: GPU-...)
 *
 * Ends with NVML's error code when a call fails, as nvidia-smi(1) does.
 */
#include <nvml.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what, nvmlReturn_t rc)
{
    fprintf(stderr, "%s: %s\n", what, nvmlErrorString(rc));
    return (int)rc;
}

int main(int argc, char **argv)
{
    int list = argc == 2 && !strcmp(argv[1], "-L"), cuda = 0, worst = 0;
    unsigned int count = 0;
    char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
    nvmlReturn_t rc;

    if (argc > 1 && !list) {
        fprintf(stderr, "usage: nvidia-smi [-L]\n");
        return 2;
    }
    if ((rc = nvmlInit_v2())) return failed("NVML cannot be initialised", rc);
    if ((rc = nvmlSystemGetDriverVersion(driver, sizeof driver))) return failed("driver version", rc);
    if ((rc = nvmlSystemGetCudaDriverVersion_v2(&cuda))) return failed("CUDA version", rc);
    if ((rc = nvmlDeviceGetCount_v2(&count))) return failed("number of GPUs", rc);
    if (!list) printf("Driver Version: %s    CUDA Version: %d.%d\n", driver, cuda / 1000, cuda % 1000 / 10);
    for (unsigned int i = 0; i < count; i++) {
        nvmlDevice_t gpu;
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

        if ((rc = nvmlDeviceGetHandleByIndex_v2(i, &gpu)) || (rc = nvmlDeviceGetName(gpu, name, sizeof name)) ||
            (rc = nvmlDeviceGetUUID(gpu, uuid, sizeof uuid))) {
            worst = failed("Unable to determine the device handle for GPU", rc);
            continue;
        }
        printf("GPU %u: %s (UUID: %s)\n", i, name, uuid);
    }
    nvmlShutdown();
    return worst;
}

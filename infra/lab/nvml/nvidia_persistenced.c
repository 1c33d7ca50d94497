/* nvidia-persistenced of the lab's nodes: switches persistence mode on for every GPU, says so to systemd's journal, and
 * switches it off when it is told to end, as nvidia-persistenced(1) does.
 */
#include <nvml.h>
#include <signal.h>
#include <stdio.h>

static nvmlReturn_t set_all(nvmlEnableState_t mode)
{
    unsigned int count;
    nvmlReturn_t rc = nvmlDeviceGetCount_v2(&count), one;
    for (unsigned int i = 0; !rc && i < count; i++) {
        nvmlDevice_t gpu;
        if ((one = nvmlDeviceGetHandleByIndex_v2(i, &gpu)) || (one = nvmlDeviceSetPersistenceMode(gpu, mode)))
            fprintf(stderr, "GPU %u: persistence mode: %s\n", i, nvmlErrorString(one)); /* the other GPUs still get theirs */
    }
    return rc;
}

int main(void)
{
    sigset_t ending;
    int which;
    nvmlReturn_t rc;

    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    if ((rc = nvmlInit_v2()) || (rc = set_all(NVML_FEATURE_ENABLED))) {
        fprintf(stderr, "persistence mode cannot be switched on: %s\n", nvmlErrorString(rc));
        return 1;
    }
    fprintf(stderr, "SIMULATED GPUs: persistence mode is on\n");
    sigwait(&ending, &which);
    return set_all(NVML_FEATURE_DISABLED) ? 1 : 0;
}

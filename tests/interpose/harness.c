/*
 * harness.c - see harness.h.
 */
#include "harness.h"

#include "base/protocol.h"
#include "base/status_page.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_OF_(macro) #macro
#define TEXT_OF(macro)  TEXT_OF_(macro)

static void
set_job(const char *folder)
{
    setenv(DDPRUN_ENV_PROTOCOL, TEXT_OF(DDPRUN_PROTOCOL_VERSION), 1);
    setenv(DDPRUN_ENV_JOB_DIR, folder, 1);
    setenv(DDPRUN_ENV_ENGINE, FAKE_ENGINE, 1);
    setenv(DDPRUN_ENV_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_WORLD_SIZE, "1", 1);
    setenv(DDPRUN_ENV_STATUS_INDEX, "0", 1);
    setenv(DDPRUN_ENV_STATUS_COUNT, "1", 1);
}

static int
run_again(char *program, const char *how)
{
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, how, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void
remove_folder(const char *folder)
{
    char name[256];
    snprintf(name, sizeof(name), "%s/" DDPRUN_STATUS_FILE, folder);
    unlink(name);
    snprintf(name, sizeof(name), "%s/rank-0.lock", folder);
    unlink(name);
    rmdir(folder);
}

int
harness_run(int argc, char **argv, enum harness_driver driver, int (*passive)(void), int (*in_job)(void))
{
    if (argc == 2 && strcmp(argv[1], "--in-job") == 0)
        return in_job();
    if (argc == 2 && strcmp(argv[1], "--passive") == 0)
        return passive();

    char folder[] = "/tmp/ddprun-test-gate-XXXXXX";
    if (mkdtemp(folder) == NULL || status_page_map(folder, 1, true) == NULL) {
        perror(folder);
        return EXIT_FAILURE;
    }
    setenv("LD_PRELOAD", SHIM, 1);
    setenv("LD_LIBRARY_PATH", driver == HARNESS_STAND_IN ? STAND_IN_DIR : FAKE_DRIVER_DIR, 1);
    int status = passive != NULL ? run_again(argv[0], "--passive") : 0;
    set_job(folder);
    if (status == 0)
        status = run_again(argv[0], "--in-job");
    unsetenv("LD_PRELOAD");
    remove_folder(folder);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

struct fake_record *
harness_record(void)
{
    void *engine = dlopen(FAKE_ENGINE, RTLD_LAZY | RTLD_NOLOAD);
    return engine != NULL ? dlsym(engine, "fake_record") : NULL;
}

bool
harness_is_in_shim(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && strstr(info.dli_fname, "libddprun.so") != NULL;
}

const char *
harness_hook_name(const void *address)
{
    Dl_info info;
    return harness_is_in_shim(address) && dladdr(address, &info) != 0 && info.dli_saddr == address ? info.dli_sname
                                                                                                   : NULL;
}

static __thread unsigned long allocations;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

void *
malloc(size_t bytes)
{
    ++allocations;
    return __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
    ++allocations;
    return __libc_calloc(count, bytes);
}

void *
realloc(void *old, size_t bytes)
{
    ++allocations;
    return __libc_realloc(old, bytes);
}

unsigned long
harness_allocations(void)
{
    return allocations;
}

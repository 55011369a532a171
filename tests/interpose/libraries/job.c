/*
 * job.c - starts a test of libraries' hooks again, as a rank: see recorder.h.
 */
#include "recorder.h"

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

/* A bundle (tests/gpu/bundle.sh) has them elsewhere than the build that compiled this. */
static const char *
path_of(const char *variable, const char *built)
{
    const char *other = getenv(variable);
    return other != NULL ? other : built;
}

struct record *
recorder_find(void)
{
    void *engine = dlopen(path_of("DDPRUN_TEST_RECORDER", RECORDER), RTLD_LAZY | RTLD_NOLOAD);
    return engine != NULL ? dlsym(engine, "recorder_record") : NULL;
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

int
recorder_run(int argc, char **argv, const char *libraries, int (*passive)(void), int (*in_job)(void))
{
    if (argc == 2 && strcmp(argv[1], "--in-job") == 0)
        return in_job();
    if (argc == 2 && strcmp(argv[1], "--passive") == 0)
        return passive != NULL ? passive() : EXIT_SUCCESS;

    char folder[] = "/tmp/ddprun-test-libraries-XXXXXX", name[256];
    if (mkdtemp(folder) == NULL || status_page_map(folder, 1, true) == NULL) {
        perror(folder);
        return EXIT_FAILURE;
    }
    setenv("LD_PRELOAD", path_of("DDPRUN_TEST_SHIM", SHIM), 1);
    if (libraries[0] != '\0')
        setenv("LD_LIBRARY_PATH", libraries, 1);
    int status = run_again(argv[0], "--passive");

    setenv(DDPRUN_ENV_PROTOCOL, TEXT_OF(DDPRUN_PROTOCOL_VERSION), 1);
    setenv(DDPRUN_ENV_JOB_DIR, folder, 1);
    setenv(DDPRUN_ENV_ENGINE, path_of("DDPRUN_TEST_RECORDER", RECORDER), 1);
    setenv(DDPRUN_ENV_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_WORLD_SIZE, "1", 1);
    setenv(DDPRUN_ENV_STATUS_INDEX, "0", 1);
    setenv(DDPRUN_ENV_STATUS_COUNT, "1", 1);
    if (status == 0)
        status = run_again(argv[0], "--in-job");

    unsetenv("LD_PRELOAD");
    snprintf(name, sizeof(name), "%s/" DDPRUN_STATUS_FILE, folder);
    unlink(name);
    snprintf(name, sizeof(name), "%s/rank-0.lock", folder);
    unlink(name);
    rmdir(folder);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

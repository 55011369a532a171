/* rank_job.c - see rank_job.h. */
#include "rank_job.h"

#include "base/protocol.h"
#include "base/status_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TEXT_OF_(macro) #macro
#define TEXT_OF(macro)  TEXT_OF_(macro)

bool
rank_job_begin(char *folder, const char *engine)
{
    if (mkdtemp(folder) == NULL || status_page_map(folder, 1, true) == NULL) {
        perror(folder);
        return false;
    }
    setenv(DDPRUN_ENV_PROTOCOL, TEXT_OF(DDPRUN_PROTOCOL_VERSION), 1);
    setenv(DDPRUN_ENV_JOB_DIR, folder, 1);
    setenv(DDPRUN_ENV_ENGINE, engine, 1);
    setenv(DDPRUN_ENV_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_RANK, "0", 1);
    setenv(DDPRUN_ENV_LOCAL_WORLD_SIZE, "1", 1);
    setenv(DDPRUN_ENV_STATUS_INDEX, "0", 1);
    setenv(DDPRUN_ENV_STATUS_COUNT, "1", 1);
    return true;
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

void
rank_job_end(const char *folder)
{
    char name[256];
    snprintf(name, sizeof(name), "%s/" DDPRUN_STATUS_FILE, folder);
    unlink(name);
    snprintf(name, sizeof(name), "%s/rank-0.lock", folder);
    unlink(name);
    rmdir(folder);
}

int
rank_job_run(int argc, char **argv, const struct rank_job *job, int (*passive)(void), int (*in_job)(void))
{
    if (argc == 2 && strcmp(argv[1], "--in-job") == 0)
        return in_job();
    if (argc == 2 && strcmp(argv[1], "--passive") == 0)
        return passive != NULL ? passive() : EXIT_SUCCESS;

    char folder[] = "/tmp/ddprun-test-job-XXXXXX";
    setenv("LD_PRELOAD", job->shim, 1);
    if (job->libraries[0] != '\0')
        setenv("LD_LIBRARY_PATH", job->libraries, 1);
    int status = run_again(argv[0], "--passive");
    if (status == 0 && !rank_job_begin(folder, job->engine))
        return EXIT_FAILURE;
    if (status == 0)
        status = run_again(argv[0], "--in-job");
    unsetenv("LD_PRELOAD");
    rank_job_end(folder);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * job.c - starts a test of libraries' hooks again, as a rank: see recorder.h.
 */
#include "recorder.h"

#include "tests/interpose/rank_job.h"

#include <dlfcn.h>
#include <stdlib.h>

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

int
recorder_run(int argc, char **argv, const char *libraries, int (*passive)(void), int (*in_job)(void))
{
    const struct rank_job job = {.shim = path_of("DDPRUN_TEST_SHIM", SHIM),
                                 .engine = path_of("DDPRUN_TEST_RECORDER", RECORDER),
                                 .libraries = libraries};
    return rank_job_run(argc, argv, &job, passive, in_job);
}

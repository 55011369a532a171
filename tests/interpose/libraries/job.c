/*
 * job.c - starts a test of libraries' hooks again, as a rank: see recorder.h.
 */
#include "recorder.h"

#include "tests/interpose/rank_job.h"

#include <check.h>
#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

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

struct record *
recorder_begin(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*allocate)(CUdeviceptr *, size_t) = (__typeof__(allocate))dlsym(driver, "cuMemAlloc_v2");
    CUdeviceptr memory;
    (void)allocate(&memory, 1);
    return recorder_find();
}

const struct operand *
recorder_operand(const struct record *record, const char *name)
{
    for (unsigned i = 0; i < record->operand_count; ++i) {
        if (strcmp(record->operands[i].name, name) == 0)
            return &record->operands[i];
    }
    return NULL;
}

unsigned
recorder_names(const char *list, char (*names)[32])
{
    unsigned count = 0;
    size_t length = 0;
    for (const char *c = list; *c != '\0'; ++c) {
        if (isalnum((unsigned char)*c) || *c == '_') {
            if (c == list || !(isalnum((unsigned char)c[-1]) || c[-1] == '_'))
                length = 0;
            names[count][length++] = *c;
            names[count][length] = '\0';
        } else if (*c == ',' || *c == ')') {
            ++count;
        }
    }
    return count;
}

void
recorder_check_order(const char *symbol, const char *parameter_list, const char *argument_list)
{
    char parameters[RECORDED_OPERANDS][32], arguments[RECORDED_OPERANDS][32];
    unsigned count = recorder_names(parameter_list, parameters);
    ck_assert_uint_eq(recorder_names(argument_list, arguments), count);
    for (unsigned i = 0; i < count; ++i)
        ck_assert_msg(strcmp(parameters[i], arguments[i]) == 0, "%s: argument %u is %s for %s", symbol, i, arguments[i],
                      parameters[i]);
}

int
recorder_run(int argc, char **argv, const char *libraries, int (*passive)(void), int (*in_job)(void))
{
    const struct rank_job job = {.shim = path_of("DDPRUN_TEST_SHIM", SHIM),
                                 .engine = path_of("DDPRUN_TEST_RECORDER", RECORDER),
                                 .libraries = libraries};
    return rank_job_run(argc, argv, &job, passive, in_job);
}

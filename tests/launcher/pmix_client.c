/*
 * pmix_client.c - a PMIx program, to see that the launcher's server serves: run.sh starts it under ddprun.
 *
 *     pmix_client exchange        each rank puts a value, all fence, each gets every other's; job size and local rank
 * are right pmix_client abort R CODE    rank R calls PMIx_Abort(CODE), the others wait for ever pmix_client leave R
 * rank R exits with code 0 and no PMIx_Finalize, the others wait for ever
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static int
fail(const char *what, pmix_status_t status)
{
    printf("pmix_client: %s: %s\n", what, PMIx_Error_string(status));
    return 1;
}

static long
get_number(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    if (PMIx_Get(proc, key, NULL, 0, &value) != PMIX_SUCCESS)
        return -1;
    long found = -2;
    if (value->type == PMIX_UINT32)
        found = value->data.uint32;
    else if (value->type == PMIX_UINT16)
        found = value->data.uint16;
    PMIX_VALUE_RELEASE(value);
    return found;
}

static int
environment_number(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? atoi(value) : -1;
}

static int
exchange(void)
{
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    long size = get_number(&all, PMIX_JOB_SIZE);
    if (size != environment_number("WORLD_SIZE") || get_number(&all, PMIX_LOCAL_SIZE) != size ||
        get_number(&all, PMIX_UNIV_SIZE) != size)
        return fail("sizes", PMIX_ERROR);
    if (get_number(&me, PMIX_LOCAL_RANK) != environment_number("LOCAL_RANK") ||
        (int)me.rank != environment_number("RANK"))
        return fail("ranks", PMIX_ERROR);

    char text[32];
    snprintf(text, sizeof(text), "value of %u", me.rank);
    pmix_value_t put = {.type = PMIX_STRING, .data.string = text};
    pmix_status_t result = PMIx_Put(PMIX_GLOBAL, "test.value", &put);
    if (result == PMIX_SUCCESS)
        result = PMIx_Commit();
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    if (result == PMIX_SUCCESS)
        result = PMIx_Fence(&all, 1, &collect, 1);
    if (result != PMIX_SUCCESS)
        return fail("put, commit, fence", result);

    for (long rank = 0; rank < size; ++rank) {
        pmix_proc_t other;
        PMIX_LOAD_PROCID(&other, me.nspace, (pmix_rank_t)rank);
        pmix_value_t *got = NULL;
        snprintf(text, sizeof(text), "value of %ld", rank);
        result = PMIx_Get(&other, "test.value", NULL, 0, &got);
        if (result != PMIX_SUCCESS || got->type != PMIX_STRING || strcmp(got->data.string, text) != 0)
            return fail("get", result);
        PMIX_VALUE_RELEASE(got);
    }
    printf("exchanged among %ld\n", size);
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    pmix_status_t result = PMIx_Init(&me, NULL, 0);
    if (result != PMIX_SUCCESS)
        return fail("init", result);
    int code = 0;
    if (strcmp(argv[1], "exchange") == 0) {
        code = exchange();
        PMIx_Finalize(NULL, 0);
        return code;
    }
    if (argc > 3 && strcmp(argv[1], "abort") == 0 && atoi(argv[2]) == (int)me.rank)
        PMIx_Abort(atoi(argv[3]), "had enough", NULL, 0);
    if (argc > 2 && strcmp(argv[1], "leave") == 0 && atoi(argv[2]) == (int)me.rank)
        _exit(0);
    for (;;)
        pause();
}

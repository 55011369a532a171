/*
 * state.c - what the shim knows of this process: is it part of a job, where is its record there, what do hooks need?
 *
 * All files of the shim use it; it uses none of them.
 */
#include "interpose/shim/shim.h"

#include "base/message.h"
#include "base/status_page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct shim shim = {.mode = SHIM_UNDECIDED, .lock_fd = -1};

__thread int shim_depth;

/* Nothing is known before the engine reports it. */
static const struct filter_kernel no_kernel = {.words = {FILTER_LIST_END}};
static struct filter_kernels no_kernels = {.mask = 0, .slot_count = 1, .slots = {&no_kernel}};
struct filter shim_filter = {.kernels = &no_kernels};

struct shim_launches shim_launches;
uint32_t shim_library_types;

bool
shim_in_job(void)
{
    static _Atomic int answer; /* 0: not asked yet, 1: no, 2: yes */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == 0) {
        known = getenv(DDPRUN_ENV_PROTOCOL) != NULL && getenv(DDPRUN_ENV_JOB_DIR) != NULL ? 2 : 1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == 2;
}

int
shim_number_from(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? atoi(text) : -1;
}

struct rank_status *
shim_map_status(void)
{
    struct rank_status *status = atomic_load(&shim.status);
    if (status != NULL)
        return status;

    int index = shim_number_from(DDPRUN_ENV_STATUS_INDEX), count = shim_number_from(DDPRUN_ENV_STATUS_COUNT);
    if (index < 0 || count <= index)
        return NULL;
    void *page = status_page_map(getenv(DDPRUN_ENV_JOB_DIR), count, false);
    if (page == NULL)
        return NULL;

    struct rank_status *mine = status_page_rank(page, index), *none = NULL;
    if (!atomic_compare_exchange_strong(&shim.status, &none, mine)) {
        status_page_unmap(page, count);
        return none;
    }
    return mine;
}

void
shim_note_gate(void)
{
    struct rank_status *status = shim_map_status();
    uint32_t none = RANK_STAGE_NONE;
    if (status != NULL) {
        atomic_store(&status->protocol, DDPRUN_PROTOCOL_VERSION);
        atomic_compare_exchange_strong(&status->stage, &none, RANK_STAGE_GATE);
    }
}

void
shim_stop(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);

    /* The launcher prints what stands in the status page; only a rank that is alive already needs its record. */
    struct rank_status *status = atomic_load(&shim.status);
    bool mine = shim.lock_fd >= 0 && shim.engine == NULL;
    if (status != NULL && (mine || atomic_load(&status->stage) < RANK_STAGE_RANK)) {
        snprintf(status->failure, sizeof(status->failure), "%s", line);
        atomic_store(&status->protocol, DDPRUN_PROTOCOL_VERSION);
        atomic_store(&status->stage, RANK_STAGE_FAILED);
    } else {
        message_line("%s", line);
    }
    _exit(DDPRUN_EXIT_FAILURE);
}

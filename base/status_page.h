/*
 * status_page.h - the mapped file in the job folder: records of struct rank_status, and the options (protocol.h).
 *
 * The launcher creates it, each rank opens it. Plain functions, no global state; safe in any thread.
 */
#ifndef DDPRUN_BASE_STATUS_PAGE_H
#define DDPRUN_BASE_STATUS_PAGE_H

#include "base/protocol.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Maps the page of job folder `dir` for `rank_count` local ranks; `create` makes the file first (launcher only).
 * Returns the mapping, to be read with status_page_rank(), or NULL with errno set.
 */
void *status_page_map(const char *dir, int rank_count, bool create);

/* Of the mapping: whole pages. */
size_t status_page_bytes(int rank_count);

void status_page_unmap(void *page, int rank_count);

struct rank_status *status_page_rank(void *page, int local_rank);

/* `rank_count` as in status_page_map(). Inline, for the engine, which is handed its record by the shim. */
static inline struct job_options *
status_page_options(void *page, int rank_count)
{
    return (struct job_options *)((char *)page + (size_t)rank_count * RANK_STATUS_STRIDE);
}

#endif

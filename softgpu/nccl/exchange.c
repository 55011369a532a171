/*
 * exchange.c - see exchange.h.
 */
#include "nccl/exchange.h"

#include "library/driver.h"
#include "nccl/remote.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void
exchange_init(struct exchange *exchange)
{
    memset(exchange, 0, sizeof(*exchange));
    link_model_parse(NULL, &exchange->link);
    segment_init(&exchange->segment);
    pthread_mutex_init(&exchange->running, NULL);
    pthread_mutex_init(&exchange->lock, NULL);
}

void
exchange_release(struct exchange *exchange)
{
    remote_stop(&exchange->segment);
    segment_unmap(&exchange->segment);
    pthread_mutex_destroy(&exchange->lock);
    pthread_mutex_destroy(&exchange->running);
}

void
exchange_end(struct exchange *exchange)
{
    remote_stop(&exchange->segment);
    segment_unmap(&exchange->segment);
    pthread_mutex_lock(&exchange->lock);
    exchange->is_over = true;
    if (exchange->error == ncclSuccess) {
        exchange->error = ncclInvalidUsage;
        snprintf(exchange->error_text, sizeof(exchange->error_text), "the communicator was destroyed");
    }
    pthread_mutex_unlock(&exchange->lock);
}

bool
exchange_may_run(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool may = exchange->error == ncclSuccess, is_over = exchange->is_over;
    pthread_mutex_unlock(&exchange->lock);
    if (is_over)
        softgpu_line("a graph was launched that holds operations of a communicator that is destroyed: they do nothing; "
                     "destroy such graphs before the communicator");
    return may;
}

void
exchange_fail(struct exchange *exchange, bool tell_user, ncclResult_t result, const char *format, ...)
{
    char text[SEGMENT_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    pthread_mutex_lock(&exchange->lock);
    bool first = exchange->error == ncclSuccess;
    if (first) {
        exchange->error = result;
        memcpy(exchange->error_text, text, sizeof(text));
    }
    pthread_mutex_unlock(&exchange->lock);
    if (!first)
        return;
    segment_set_state(&exchange->segment, RANK_FAILED, text);
    if (tell_user)
        softgpu_line("%s", text);
}

void
exchange_stall(struct exchange *exchange)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    while (exchange_error(exchange, NULL, 0) != ncclSuccess && segment_is_mapped(&exchange->segment) &&
           !atomic_load(&exchange->segment.interrupted))
        nanosleep(&nap, NULL);
}

void
exchange_fail_waiting(struct exchange *exchange, enum wait_result why, int peer, const char *doing)
{
    static const struct {
        const char *before, *after;
    } texts[] = {
        [WAIT_PEER_LEFT] = {"", " destroyed its communicator"},
        [WAIT_PEER_ABORTED] = {"", " aborted its communicator"},
        [WAIT_PEER_ENDED] = {"the process of ", " ended"},
        [WAIT_PEER_SILENT] = {"the host of ", " does not answer any more"},
        [WAIT_PEER_GARBLED] = {"", " sends what no rank would,"},
    };
    int rank = exchange->segment.rank;
    if (why == WAIT_PEER_FAILED) /* which the peer has told the user: here the first cause is passed on */
        exchange_fail(exchange, false, ncclRemoteError, "%.*s", SEGMENT_TEXT_BYTES - 1,
                      exchange->segment.slots[peer]->text);
    else if ((size_t)why < sizeof(texts) / sizeof(texts[0]) && texts[why].after != NULL)
        exchange_fail(exchange, true, ncclRemoteError, "%srank %d%s while rank %d waits for it in %s",
                      texts[why].before, peer, texts[why].after, rank, doing);
    else /* this rank gives up, and knows why */
        exchange_fail(exchange, false, ncclInternalError, "rank %d aborted its own communicator in %s", rank, doing);
}

ncclResult_t
exchange_error(struct exchange *exchange, char *text, size_t text_bytes)
{
    pthread_mutex_lock(&exchange->lock);
    ncclResult_t error = exchange->error;
    if (error != ncclSuccess && text)
        snprintf(text, text_bytes, "%s", exchange->error_text);
    pthread_mutex_unlock(&exchange->lock);
    return error;
}

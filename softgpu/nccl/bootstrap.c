/*
 * bootstrap.c - the rank's side of bootstrap.h: joining. Ids are made in bootstrap_id.c, the serving thread is in
 * bootstrap_root.c, what a world of several hosts needs besides in spread.c, talking to the root in meeting.c.
 */
#include "nccl/bootstrap_wire.h"

#include "nccl/clock.h"
#include "nccl/inherited.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* How long the ranks of an id from NCCL_COMM_ID wait for rank 0 to serve it. */
#define RANK_0_PATIENCE_NS 60000000000LL

/* Makes the connection known to bootstrap_cancel(); false if that has been called. */
static bool
announce(struct bootstrap_wait *wait, int connection)
{
    pthread_mutex_lock(&wait->lock);
    wait->connection = connection;
    bool goes_on = !wait->is_cancelled;
    pthread_mutex_unlock(&wait->lock);
    return goes_on;
}

void
bootstrap_cancel(struct bootstrap_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    wait->is_cancelled = true;
    if (wait->connection >= 0)
        shutdown(wait->connection, SHUT_RDWR);
    pthread_mutex_unlock(&wait->lock);
}

/* Over TCP. Rank 0 may begin to serve an id from NCCL_COMM_ID after the others have come. */
static ncclResult_t
connect_tcp(struct meeting *meeting, const struct id_content *id, int rank, bool may_be_early)
{
    if (id->root.family == 0) {
        snprintf(meeting->error->text, sizeof(meeting->error->text),
                 "this unique id was made on another host, and that had no network interface that was up when it was "
                 "made");
        return ncclSystemError;
    }
    int64_t deadline_ns = clock_now_ns() + RANK_0_PATIENCE_NS;
    for (;;) {
        ncclResult_t result = meeting_connect(meeting, &id->root, id->secret, AUTH_ROOT, rank, &meeting->socket);
        if (result == ncclSuccess || !may_be_early || meeting_is_cancelled(meeting) || clock_now_ns() > deadline_ns)
            return result;
        const struct timespec nap = {.tv_nsec = 20000000};
        nanosleep(&nap, NULL);
    }
}

static ncclResult_t
connect_to_root(struct meeting *meeting, struct id_content *id, const struct report *hello, bool *is_unix_p)
{
    static const unsigned char no_name[sizeof(id->name)];
    bool has_name = memcmp(id->name, no_name, sizeof(no_name)) != 0;
    *is_unix_p = has_name && memcmp(id->host, hello->host, HOST_BYTES) == 0;
    if (*is_unix_p)
        return meeting_connect_unix(meeting, id, &meeting->socket);
    if (!has_name && hello->rank == 0) {
        TRY(bootstrap_root_start(id, meeting->error));
    }
    return connect_tcp(meeting, id, hello->rank, !has_name);
}

/* Hello, and what follows from the first ruling. */
static ncclResult_t
join_through(struct meeting *meeting, struct segment *segment, const struct id_content *id, struct report *hello,
             bool is_unix)
{
    struct ruling ruling;
    ncclResult_t result;
    if (is_unix) {
        result = meeting_hello_unix(meeting, meeting->socket, hello, id);
        if (result == ncclSuccess)
            result = meeting_answer_unix(meeting, meeting->socket, segment, &ruling);
        if (result != ncclSuccess || ruling.kind == RULING_WELCOME)
            return result;
    } else {
        TRY(meeting_report(meeting, hello));
        TRY(meeting_ruling(meeting, RULING_SPREAD, &ruling));
    }
    result = spread_join(segment, id, hello->rank, hello->rank_count, &ruling, meeting);
    struct report last = {.magic = REPORT_MAGIC, .kind = REPORT_DONE};
    if (result == ncclSuccess) {
        result = meeting_report(meeting, &last);
        return result == ncclSuccess ? meeting_ruling(meeting, RULING_WELCOME, &ruling) : result;
    }
    if (meeting->refusal == ncclSuccess) { /* the others shall know why */
        last.kind = REPORT_FAILED;
        last.result = ncclRemoteError;
        if (meeting->secret)
            memcpy(last.secret, meeting->secret, sizeof(last.secret));
        snprintf(last.text, sizeof(last.text), "rank %d: %.400s", hello->rank, meeting->error->text);
        struct bootstrap_error ignored;
        struct meeting farewell = *meeting;
        farewell.error = &ignored;
        if (meeting_send(&farewell, meeting->socket, &last, sizeof(last), "") != ncclSuccess)
            return result; /* who is gone need not hear it */
    }
    return result;
}

ncclResult_t
bootstrap_join(struct segment *segment, const ncclUniqueId *id, int rank, int rank_count, struct bootstrap_wait *wait,
               struct bootstrap_error *error)
{
    struct id_content content;
    memcpy(&content, id, sizeof(content));
    if (memcmp(content.magic, ID_MAGIC, sizeof(content.magic)) != 0) {
        snprintf(error->text, sizeof(error->text), "the unique id was not made by ncclGetUniqueId of the stand-in");
        return ncclInvalidArgument;
    }
    struct meeting meeting = {.socket = -1, .wait = wait, .error = error};
    struct report hello = {.magic = REPORT_MAGIC, .kind = REPORT_HELLO, .rank = rank, .rank_count = rank_count};
    bootstrap_host(hello.host);
    bool is_unix = false;
    ncclResult_t result = connect_to_root(&meeting, &content, &hello, &is_unix);
    if (result != ncclSuccess)
        return result;
    if (!announce(wait, meeting.socket)) {
        snprintf(error->text, sizeof(error->text), "the communicator was aborted before it was complete");
        result = ncclInternalError;
    }
    meeting.secret = is_unix ? content.secret : NULL;
    segment_place(segment, rank, rank_count, NULL);
    if (result == ncclSuccess)
        result = join_through(&meeting, segment, &content, &hello, is_unix);
    if (result == ncclSuccess)
        segment_set_state(segment, RANK_JOINED, NULL);
    else
        spread_undo(segment);
    announce(wait, -1);
    inherited_close(meeting.socket);
    return result;
}

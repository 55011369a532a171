/*
 * control.c - see control.h.
 *
 * Towards rank 0: one frame. From rank 0 one frame, too (with one for each rank, ranks together would make as many
 * system calls as the square of their number): FRAME_ALL, a uint64_t for each rank with the size of its message, and
 * then the messages, in order of ranks; or FRAME_FAILURE, or FRAME_RANK_LEFT for COMM_LEFT.
 */
#include "comm/control.h"

#include "base/assertion.h"
#include "base/clock.h"
#include "comm/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ABOUT_BYTES = 128 };

/* Reports why rank `rank` was not reached, at `about`. Always false. */
static bool
fail_with(const struct control *control, enum link_state why, int rank, const char *about, struct comm_error *error)
{
    if (why == LINK_NO_MEMORY)
        return comm_fail_by(error, COMM_OWN, "out of memory");
    if (why == LINK_ALTERED)
        return comm_fail(error,
                         "a message of rank %d, for which this rank waits at %s, is damaged: a process in between has "
                         "changed it, or that rank has another version of ddprun",
                         rank, about);
    if (why == LINK_LATE && control->rank != 0 && control->world_size > 2) /* rank 0 may wait for another one */
        return comm_fail_by(error, COMM_OTHERS, "waited %d s for the other ranks at %s", control->timeout_s, about);
    if (why == LINK_LATE)
        return comm_fail_by(error, COMM_OTHERS, "waited %d s for rank %d at %s", control->timeout_s, rank, about);
    if (why == LINK_CLOSED && !control->last)
        return comm_fail_by(error, COMM_OWN,
                            "the program has closed ddprun's descriptors in this rank, so the rank receives nothing "
                            "from the others at %s; close only descriptors that the program has opened",
                            about);
    return comm_fail_by(error, COMM_LEFT, "rank %d has left, while this rank waits at %s", rank, about);
}

/* ---- opening ---- */

bool
control_open(struct control *control, struct rendezvous *rendezvous, int timeout_s, struct comm_error *error)
{
    *control = (struct control){.rank = rendezvous->rank,
                                .world_size = rendezvous->world_size,
                                .peer_count = rendezvous->rank == 0 ? rendezvous->world_size : 1,
                                .timeout_s = timeout_s};
    control->peers = calloc((size_t)control->peer_count, sizeof(*control->peers));
    if (control->peers == NULL)
        return comm_fail_by(error, COMM_OWN, "out of memory");
    for (int i = 0; i < control->peer_count; ++i)
        control->peers[i].fd = -1;

    return rendezvous_links(rendezvous, control->peers, timeout_s, error);
}

/* Buffers stay: in a forked child another thread may have been about to change them. */
void
control_close(struct control *control)
{
    for (int i = 0; i < control->peer_count; ++i) {
        if (control->peers[i].fd >= 0)
            close(control->peers[i].fd);
        control->peers[i].fd = -1;
    }
}

/* ---- frames ---- */

/* A frame of these bytes, where its sender is in front of them. Its bytes are malloc'ed; false: out of memory. */
static bool
make_frame(struct peer_frame *frame, enum frame_kind kind, const char *about, const void *bytes, size_t count)
{
    size_t place = strnlen(about, ABOUT_BYTES - 1) + 1;
    unsigned char *to = malloc(place + count);
    if (to == NULL)
        return false;
    memcpy(to, about, place - 1);
    to[place - 1] = '\0';
    memcpy(to + place, bytes, count);
    *frame = (struct peer_frame){.kind = kind, .bytes = to, .count = place + count};
    return true;
}

static void
free_frame(struct peer_frame *frame)
{
    free((void *)(uintptr_t)frame->bytes);
}

static bool
send_frame(struct control *control, int rank, struct peer_frame *frame, const char *about, int64_t deadline_ms,
           struct comm_error *error)
{
    peer_link_send_frame(&control->peers[rank], frame, true);
    enum link_state sent = peer_link_finish(&control->peers[rank], deadline_ms);
    return sent == LINK_OPEN || fail_with(control, sent, rank, about, error);
}

enum { IDLE_MS = 20 };

static enum link_state
await_frame(struct control *control, int rank, struct peer_frame *frame, int64_t deadline_ms)
{
    for (;;) {
        int64_t until_ms = clock_now_ms() + IDLE_MS;
        bool is_last = control->idle == NULL || until_ms >= deadline_ms;
        enum link_state got = peer_link_await(&control->peers[rank], frame, is_last ? deadline_ms : until_ms);
        if (got != LINK_LATE || is_last)
            return got;
        control->idle();
    }
}

/* The next frame of peer `rank`, without its place, which goes to *place_p. */
static bool
receive_frame(struct control *control, int rank, const char *about, int64_t deadline_ms, struct peer_frame *frame,
              const char **place_p, struct comm_error *error)
{
    enum link_state got = await_frame(control, rank, frame, deadline_ms);
    const unsigned char *end = NULL;
    if (got == LINK_OPEN)
        end = memchr(frame->bytes, 0, frame->count < ABOUT_BYTES ? frame->count : ABOUT_BYTES);
    if (got != LINK_OPEN || end == NULL) {
        (void)fail_with(control, got != LINK_OPEN ? got : LINK_ALTERED, rank, about, error);
        return false;
    }
    *place_p = (const char *)frame->bytes;
    frame->count -= (size_t)(end + 1 - frame->bytes);
    frame->bytes = end + 1;
    return true;
}

/* ---- messages ---- */

static bool
make_messages(struct control_messages *messages, int count)
{
    *messages = (struct control_messages){.count = count};
    messages->messages = calloc((size_t)count, sizeof(messages->messages[0]));
    messages->bytes = calloc((size_t)count, sizeof(messages->bytes[0]));
    return messages->messages != NULL && messages->bytes != NULL;
}

void
control_free_messages(struct control_messages *messages)
{
    for (int r = 0; messages->messages != NULL && r < messages->count; ++r)
        free(messages->messages[r]);
    free(messages->messages);
    free(messages->bytes);
    *messages = (struct control_messages){0};
}

/* Texts are read as strings: each message gets a NUL. */
static bool
keep_message(struct control_messages *messages, size_t rank, const void *bytes, size_t count)
{
    char *message = malloc(count + 1);
    if (message == NULL)
        return false;
    memcpy(message, bytes, count);
    message[count] = '\0';
    free(messages->messages[rank]);
    messages->messages[rank] = message;
    messages->bytes[rank] = count;
    return true;
}

/* ---- exchanging ---- */

/* Rank 0 lets the others fail with the same line before it does. */
static bool
fail_everyone(struct control *control, struct comm_error *error, int64_t deadline_ms)
{
    struct peer_frame frame;
    struct comm_error ignored;
    if (!make_frame(&frame, error->cause == COMM_LEFT ? FRAME_RANK_LEFT : FRAME_FAILURE, "failure", error->text,
                    strlen(error->text)))
        return false;
    for (int r = 1; r < control->world_size; ++r)
        (void)send_frame(control, r, &frame, "failure", deadline_ms, &ignored);
    free_frame(&frame);
    return false;
}

/* At the end of the program the rest is waited for even if one has left. */
static bool
gather(struct control *control, const char *about, struct control_messages *messages, int64_t deadline_ms,
       struct comm_error *error)
{
    bool left = false;
    for (int r = 1; r < control->world_size; ++r) {
        struct peer_frame frame;
        const char *place;
        if (!receive_frame(control, r, about, deadline_ms, &frame, &place, error)) {
            if (!control->last || error->cause != COMM_LEFT)
                return false;
            left = true;
            continue;
        }
        if (strncmp(place, about, ABOUT_BYTES - 1) != 0)
            return comm_fail(error,
                             "ranks have reached different places: rank 0 is at %s, rank %d at %s; "
                             "all ranks must make the same ddprun calls",
                             about, r, place);
        if (!keep_message(messages, (size_t)r, frame.bytes, frame.count))
            return comm_fail_by(error, COMM_OWN, "out of memory");
    }
    return !left;
}

/* What a FRAME_ALL holds, malloc'ed; NULL: out of memory. */
static char *
pack_messages(const struct control_messages *messages, size_t *bytes_p)
{
    size_t bytes = (size_t)messages->count * sizeof(uint64_t);
    for (int r = 0; r < messages->count; ++r)
        bytes += messages->bytes[r];
    char *packed = malloc(bytes), *at = packed;
    if (packed == NULL)
        return NULL;
    for (int r = 0; r < messages->count; ++r, at += sizeof(uint64_t))
        memcpy(at, &(uint64_t){messages->bytes[r]}, sizeof(uint64_t));
    for (int r = 0; r < messages->count; at += messages->bytes[r++])
        memcpy(at, messages->messages[r], messages->bytes[r]);
    *bytes_p = bytes;
    return packed;
}

/* The reverse; false if the sizes do not add up to what has come. */
static bool
unpack_messages(const unsigned char *packed, size_t bytes, struct control_messages *messages)
{
    size_t count = (size_t)messages->count, used = count * sizeof(uint64_t);
    for (size_t r = 0; r < count; ++r) {
        uint64_t size;
        if (used > bytes)
            return false;
        memcpy(&size, packed + r * sizeof(size), sizeof(size));
        if (size > bytes - used || !keep_message(messages, r, packed + used, size))
            return false;
        used += size;
    }
    return used == bytes;
}

static bool
exchange_as_root(struct control *control, const char *about, struct control_messages *messages, int64_t deadline_ms,
                 struct comm_error *error)
{
    if (!gather(control, about, messages, deadline_ms, error))
        return fail_everyone(control, error, deadline_ms);

    size_t bytes;
    struct peer_frame frame = {.bytes = NULL};
    char *packed = pack_messages(messages, &bytes);
    bool sent = (packed != NULL && make_frame(&frame, FRAME_ALL, about, packed, bytes)) ||
                comm_fail_by(error, COMM_OWN, "out of memory");
    free(packed);
    for (int to = 1; sent && to < control->world_size; ++to)
        sent = send_frame(control, to, &frame, about, deadline_ms, error);
    free_frame(&frame);
    return sent;
}

static bool
exchange_as_leaf(struct control *control, const char *about, struct control_messages *messages, int64_t deadline_ms,
                 struct comm_error *error)
{
    struct peer_frame frame;
    const char *place;
    if (!make_frame(&frame, FRAME_MESSAGE, about, messages->messages[control->rank], messages->bytes[control->rank]))
        return comm_fail_by(error, COMM_OWN, "out of memory");
    bool sent = send_frame(control, 0, &frame, about, deadline_ms, error);
    free_frame(&frame);
    if (!sent || !receive_frame(control, 0, about, deadline_ms, &frame, &place, error))
        return false;
    if (frame.kind == FRAME_ALL && unpack_messages(frame.bytes, frame.count, messages))
        return true;
    bool told =
        (frame.kind == FRAME_FAILURE || frame.kind == FRAME_RANK_LEFT) && frame.count > 0 && frame.bytes[0] != '\0';
    return comm_fail_by(error, frame.kind == FRAME_RANK_LEFT ? COMM_LEFT : COMM_OTHERS, "%.*s",
                        told && frame.count < 500 ? (int)frame.count : 500,
                        told ? (const char *)frame.bytes : "rank 0 mixed up its messages");
}

bool
control_exchange(struct control *control, const char *about, const void *mine, size_t bytes,
                 struct control_messages *messages_p, struct comm_error *error)
{
    struct control_messages messages;
    ASSERT(strlen(about) < ABOUT_BYTES);
    bool done =
        make_messages(&messages, control->world_size) && keep_message(&messages, (size_t)control->rank, mine, bytes);
    if (!done) {
        control_free_messages(&messages);
        return comm_fail_by(error, COMM_OWN, "out of memory");
    }
    int64_t deadline_ms = clock_now_ms() + (int64_t)control->timeout_s * 1000;
    if (control->world_size > 1)
        done = control->rank == 0 ? exchange_as_root(control, about, &messages, deadline_ms, error)
                                  : exchange_as_leaf(control, about, &messages, deadline_ms, error);
    if (!done) {
        control_free_messages(&messages);
        return false;
    }
    *messages_p = messages;
    return true;
}

bool
control_exchange_last(struct control *control, const char *about, const void *mine, size_t bytes,
                      struct control_messages *messages_p, struct comm_error *error)
{
    control->last = true;
    return control_exchange(control, about, mine, bytes, messages_p, error);
}

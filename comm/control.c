/*
 * control.c - see control.h.
 *
 * Towards rank 0: one frame. From rank 0 one frame, too (with one for each rank, ranks together would make as many
 * system calls as the square of their number): FRAME_ALL, a uint64_t for each rank with the size of its message, and
 * then the messages, in order of ranks; or FRAME_FAILURE, or FRAME_RANK_LEFT for COMM_LEFT.
 */
#include "comm/control.h"

#include "base/clock.h"
#include "comm/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_BYTES_AT_MOST = 64 << 20 };

static bool
failed_with(const struct control *control, enum transfer transfer, int rank, const char *about,
            struct comm_error *error)
{
    return transfer_failed(transfer, rank, about, control->timeout_s, control->last, error);
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

void
control_close(struct control *control)
{
    for (int i = 0; i < control->peer_count; ++i) {
        if (control->peers[i].fd >= 0)
            close(control->peers[i].fd);
        control->peers[i].fd = -1;
    }
}

/* ---- exchanging ---- */

/* Receives one frame of peer `rank` into *header and malloc'ed *data_p. */
static bool
receive_frame(struct control *control, int rank, const char *about, int64_t deadline_ms,
              struct rank_frame_header *header, void **data_p, struct comm_error *error)
{
    size_t most = MESSAGE_BYTES_AT_MOST * (size_t)(rank == 0 ? control->world_size : 1);
    enum transfer got = frame_receive(&control->peers[rank], most, header, data_p, deadline_ms);
    return got == TRANSFER_DONE || failed_with(control, got, rank, about, error);
}

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

/* Rank 0 lets the others fail with the same line before it does. */
static bool
fail_everyone(struct control *control, struct comm_error *error, int64_t deadline_ms)
{
    struct rank_frame frame = frame_make(error->cause == COMM_LEFT ? FRAME_RANK_LEFT : FRAME_FAILURE, 0, "failure",
                                         error->text, strlen(error->text));
    for (int r = 1; r < control->world_size; ++r)
        (void)frame_send(&control->peers[r], &frame, deadline_ms);
    return false;
}

/* At the end of the program the rest is waited for even if one has left. */
static bool
gather(struct control *control, const char *about, struct control_messages *messages, int64_t deadline_ms,
       struct comm_error *error)
{
    bool left = false;
    for (int r = 1; r < control->world_size; ++r) {
        struct rank_frame_header header;
        if (!receive_frame(control, r, about, deadline_ms, &header, &messages->messages[r], error)) {
            if (!control->last || error->cause != COMM_LEFT)
                return false;
            left = true;
            continue;
        }
        messages->bytes[r] = header.bytes;
        if (strcmp(header.about, about) != 0)
            return comm_fail(error,
                             "ranks have reached different places: rank 0 is at %s, rank %d at %s; "
                             "all ranks must make the same ddprun calls",
                             about, r, header.about);
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

/* The reverse; false if the sizes do not add up to what has come. Texts are read as strings: each gets a NUL. */
static bool
unpack_messages(const char *packed, size_t bytes, struct control_messages *messages)
{
    size_t count = (size_t)messages->count, used = count * sizeof(uint64_t);
    for (size_t r = 0; r < count; ++r) {
        uint64_t size;
        if (used > bytes)
            return false;
        memcpy(&size, packed + r * sizeof(size), sizeof(size));
        if (size > bytes - used)
            return false;
        char *message = malloc(size + 1);
        if (message == NULL)
            return false;
        memcpy(message, packed + used, size);
        message[size] = '\0';
        free(messages->messages[r]);
        messages->messages[r] = message;
        messages->bytes[r] = size;
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
    char *packed = pack_messages(messages, &bytes);
    if (packed == NULL)
        return comm_fail_by(error, COMM_OWN, "out of memory");
    struct rank_frame frame = frame_make(FRAME_ALL, 0, about, packed, bytes);
    enum transfer sent = TRANSFER_DONE;
    for (int to = 1; sent == TRANSFER_DONE && to < control->world_size; ++to) {
        sent = frame_send(&control->peers[to], &frame, deadline_ms);
        if (sent != TRANSFER_DONE)
            failed_with(control, sent, to, about, error);
    }
    free(packed);
    return sent == TRANSFER_DONE;
}

static bool
exchange_as_leaf(struct control *control, const char *about, struct control_messages *messages, int64_t deadline_ms,
                 struct comm_error *error)
{
    struct rank_frame frame = frame_make(FRAME_MESSAGE, control->rank, about, messages->messages[control->rank],
                                         messages->bytes[control->rank]);
    enum transfer sent = frame_send(&control->peers[0], &frame, deadline_ms);
    if (sent != TRANSFER_DONE)
        return failed_with(control, sent, 0, about, error);

    void *data = NULL;
    struct rank_frame_header header;
    if (!receive_frame(control, 0, about, deadline_ms, &header, &data, error))
        return false;
    bool arrived = data != NULL && header.kind == FRAME_ALL && unpack_messages(data, header.bytes, messages);
    bool told = header.kind == FRAME_FAILURE || header.kind == FRAME_RANK_LEFT;
    const char *why = told && data != NULL ? data : "rank 0 mixed up its messages";
    if (!arrived)
        comm_fail_by(error, header.kind == FRAME_RANK_LEFT ? COMM_LEFT : COMM_OTHERS, "%.500s",
                     why[0] != '\0' ? why : "rank 0 failed without saying why");
    free(data);
    return arrived;
}

bool
control_exchange(struct control *control, const char *about, const void *mine, size_t bytes,
                 struct control_messages *messages_p, struct comm_error *error)
{
    struct control_messages messages;
    bool done =
        make_messages(&messages, control->world_size) && (messages.messages[control->rank] = malloc(bytes + 1)) != NULL;
    if (!done) {
        control_free_messages(&messages);
        return comm_fail_by(error, COMM_OWN, "out of memory");
    }
    memcpy(messages.messages[control->rank], mine, bytes);
    ((char *)messages.messages[control->rank])[bytes] = '\0';
    messages.bytes[control->rank] = bytes;

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

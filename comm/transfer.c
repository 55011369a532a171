/*
 * transfer.c - see rendezvous.h.
 */
#include "comm/rendezvous.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { FRAME_MAGIC = 0x64647072 };

bool
transfer_wait(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - clock_now_ms();
        struct pollfd poller = {.fd = fd, .events = events};
        int ready = poll(&poller, 1, left > 0 ? (int)left : 0);
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

/*
 * What a call that moved nothing means: true to try it again. It is tried before anything is waited for: what it wants
 * is most often there, and a poll in front of each would double the calls.
 */
static bool
try_again(int fd, short events, ssize_t moved, int64_t deadline_ms, enum transfer *why_p)
{
    *why_p = moved < 0 && (errno == EBADF || errno == ENOTSOCK) ? TRANSFER_CLOSED : TRANSFER_GONE;
    if (moved == 0 || (errno != EINTR && errno != EAGAIN))
        return false;
    *why_p = TRANSFER_LATE;
    return errno == EINTR || transfer_wait(fd, events, deadline_ms);
}

static enum transfer
move_all(int fd, short events, char *at, size_t bytes, int64_t deadline_ms)
{
    enum transfer why;
    while (bytes > 0) {
        ssize_t moved =
            events == POLLOUT ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, bytes, MSG_DONTWAIT);
        if (moved <= 0 && !try_again(fd, events, moved, deadline_ms, &why))
            return why;
        at += moved > 0 ? moved : 0;
        bytes -= moved > 0 ? (size_t)moved : 0;
    }
    return TRANSFER_DONE;
}

enum transfer
transfer_send(int fd, const void *data, size_t bytes, int64_t deadline_ms)
{
    return move_all(fd, POLLOUT, (char *)(uintptr_t)data, bytes, deadline_ms);
}

enum transfer
transfer_receive(int fd, void *data, size_t bytes, int64_t deadline_ms)
{
    return move_all(fd, POLLIN, data, bytes, deadline_ms);
}

bool
transfer_failed(enum transfer transfer, int rank, const char *about, int timeout_s, bool is_last,
                struct comm_error *error)
{
    if (transfer == TRANSFER_NO_MEMORY)
        return comm_fail_by(error, COMM_OWN, "out of memory");
    if (transfer == TRANSFER_ALTERED)
        return comm_fail(error,
                         "what came from rank %d, while this rank waits at %s, is not what it sent: a process in "
                         "between has changed it, or it is another version of ddprun",
                         rank, about);
    if (transfer == TRANSFER_LATE)
        return comm_fail_by(error, COMM_OTHERS, "waited %d s for rank %d at %s", timeout_s, rank, about);
    if (transfer == TRANSFER_CLOSED && !is_last)
        return comm_fail_by(error, COMM_OWN,
                            "the program has closed descriptors of ddprun in this rank, which cannot hear of the "
                            "others at %s; close only descriptors that the program has opened",
                            about);
    return comm_fail_by(error, COMM_LEFT, "rank %d has left, while this rank waits at %s", rank, about);
}

/* ---- frames ---- */

struct rank_frame
frame_make(enum frame_kind kind, int rank, const char *about, const void *data, size_t bytes)
{
    struct rank_frame frame = {.header = {.magic = FRAME_MAGIC, .kind = kind, .rank = rank, .bytes = bytes},
                               .data = data};
    snprintf(frame.header.about, sizeof(frame.header.about), "%s", about);
    return frame;
}

/* What the code is of. The hash of the bytes stands for them: rank 0 sends the same to all others. */
static void
parts_of(const struct rank_frame_header *header, const unsigned char digest[SEAL_HASH_BYTES], struct seal_part parts[2])
{
    parts[0] = (struct seal_part){header, offsetof(struct rank_frame_header, code)};
    parts[1] = (struct seal_part){digest, SEAL_HASH_BYTES};
}

enum transfer
frame_send(struct rank_link *link, struct rank_frame *frame, int64_t deadline_ms)
{
    struct seal_part parts[2];
    if (link->seal.is_on && !frame->is_digested)
        seal_hash(frame->data, frame->header.bytes, frame->digest);
    frame->is_digested = frame->is_digested || link->seal.is_on;
    parts_of(&frame->header, frame->digest, parts);
    seal_make(&link->seal, parts, frame->header.code);
    enum transfer sent = transfer_send(link->fd, &frame->header, sizeof(frame->header), deadline_ms);
    return sent == TRANSFER_DONE ? transfer_send(link->fd, frame->data, frame->header.bytes, deadline_ms) : sent;
}

enum transfer
frame_receive(struct rank_link *link, size_t most, struct rank_frame_header *header_p, void **data_p,
              int64_t deadline_ms)
{
    struct rank_frame_header header;
    struct seal_part parts[2];
    unsigned char digest[SEAL_HASH_BYTES];
    enum transfer got = transfer_receive(link->fd, &header, sizeof(header), deadline_ms);
    if (got != TRANSFER_DONE)
        return got;
    if (header.magic != FRAME_MAGIC || header.bytes > most || memchr(header.about, 0, FRAME_ABOUT_BYTES) == NULL)
        return TRANSFER_ALTERED;
    char *data = malloc(header.bytes + 1);
    if (data == NULL)
        return TRANSFER_NO_MEMORY;
    got = transfer_receive(link->fd, data, header.bytes, deadline_ms);
    if (got == TRANSFER_DONE && link->seal.is_on)
        seal_hash(data, header.bytes, digest);
    parts_of(&header, digest, parts);
    if (got == TRANSFER_DONE && !seal_holds(&link->seal, parts, header.code))
        got = TRANSFER_ALTERED;
    if (got != TRANSFER_DONE) {
        free(data);
        return got;
    }
    data[header.bytes] = '\0';
    *header_p = header;
    *data_p = data;
    return got;
}

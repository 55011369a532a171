/*
 * peer_link.c - see peer_link.h.
 */
#include "base/peer_link.h"

#include "base/assertion.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 4096, KEPT_BYTES = 64 << 10, SENT_AT_MOST = 1 << 30 };

/* ---- frames ---- */

/* In front of a frame's bytes. */
struct frame_header {
    uint32_t length, kind;
    unsigned char code[SEAL_CODE_BYTES];
};
_Static_assert(sizeof(struct frame_header) == FRAME_HEADER_BYTES, "no gaps");

/* What the code is of. The hash of the bytes stands for them. */
static void
parts_of(const struct frame_header *header, const unsigned char digest[SEAL_HASH_BYTES], struct seal_part parts[2])
{
    parts[0] = (struct seal_part){header, offsetof(struct frame_header, code)};
    parts[1] = (struct seal_part){digest, SEAL_HASH_BYTES};
}

void
peer_frame_seal(struct peer_frame *frame, struct seal *seal, unsigned char header[FRAME_HEADER_BYTES])
{
    struct frame_header made = {.length = (uint32_t)frame->count, .kind = (uint32_t)frame->kind};
    struct seal_part parts[2];
    if (seal->is_on && !frame->is_digested)
        seal_hash(frame->bytes, frame->count, frame->digest);
    frame->is_digested = frame->is_digested || seal->is_on;
    parts_of(&made, frame->digest, parts);
    seal_make(seal, parts, made.code);
    memcpy(header, &made, sizeof(made));
}

long
peer_frame_parse(const unsigned char *bytes, size_t count, size_t most, struct seal *seal, struct peer_frame *frame_p)
{
    struct frame_header header;
    struct seal_part parts[2];
    if (count < sizeof(header))
        return 0;
    memcpy(&header, bytes, sizeof(header));
    if (header.length > most || header.kind < FRAME_HEARTBEAT || header.kind >= FRAME_KINDS)
        return -1;
    if (count - sizeof(header) < header.length)
        return 0;
    struct peer_frame frame = {
        .kind = (enum frame_kind)header.kind, .bytes = bytes + sizeof(header), .count = header.length};
    if (seal->is_on)
        seal_hash(frame.bytes, frame.count, frame.digest);
    parts_of(&header, frame.digest, parts);
    if (!seal_holds(seal, parts, header.code))
        return -1;
    *frame_p = frame;
    return (long)(sizeof(header) + header.length);
}

/* ---- sockets ---- */

static bool
may_come_later(int cause)
{
    return cause == EAGAIN || cause == EINTR;
}

static enum link_state
state_after(int cause)
{
    return cause == EBADF || cause == ENOTSOCK ? LINK_CLOSED : LINK_GONE;
}

bool
socket_wait(int fd, short events, int64_t deadline_ms)
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

enum link_state
socket_receive(int fd, void *to, size_t count, size_t *got_p)
{
    ssize_t got = recv(fd, (char *)to + *got_p, count - *got_p, MSG_DONTWAIT);
    if (got < 0)
        return may_come_later(errno) ? LINK_LATE : state_after(errno);
    errno = ECONNRESET;
    if (got == 0)
        return LINK_GONE;
    *got_p += (size_t)got;
    return *got_p < count ? LINK_LATE : LINK_OPEN;
}

bool
socket_is_own_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* ---- opening and closing ---- */

void
peer_link_open(struct peer_link *link, int fd, const unsigned char *key, bool is_root, size_t most)
{
    *link = (struct peer_link){.fd = fd, .most = most};
    if (key != NULL)
        seal_open(&link->seal, key, is_root);
}

void
peer_link_wake_late(struct peer_link *link)
{
    int low = LINK_WAKE_BYTES;
    link->wakes = true;
    (void)setsockopt(link->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

void
peer_link_close(struct peer_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    free(link->in.bytes);
    free(link->out.bytes);
    *link = (struct peer_link){.fd = -1, .state = LINK_GONE};
}

/* Room for `more` bytes, for which what was taken makes way. */
static bool
make_room(struct peer_link *link, struct link_bytes *of, size_t more)
{
    if (of->taken > 0)
        memmove(of->bytes, of->bytes + of->taken, of->count - of->taken);
    of->count -= of->taken;
    of->taken = 0;
    if (of->room - of->count >= more)
        return true;
    size_t room = (of->count + more) * 2;
    unsigned char *bytes = realloc(of->bytes, room);
    if (bytes == NULL) {
        link->state = LINK_NO_MEMORY;
        return false;
    }
    of->bytes = bytes;
    of->room = room;
    return true;
}

/* ---- sending ---- */

bool
peer_link_flush(struct peer_link *link)
{
    struct link_bytes *out = &link->out;
    while (link->state == LINK_OPEN && out->taken < out->count) {
        ssize_t sent = send(link->fd, out->bytes + out->taken, out->count - out->taken, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            out->taken += (size_t)sent;
        else if (errno == EAGAIN)
            return false;
        else if (errno != EINTR)
            link->state = state_after(errno);
    }
    out->count = out->taken = 0;
    if (out->room > KEPT_BYTES) {
        free(out->bytes);
        *out = (struct link_bytes){0};
    }
    return true;
}

static void
append_frame(struct peer_link *link, struct peer_frame *frame)
{
    struct link_bytes *out = &link->out;
    if (!make_room(link, out, FRAME_HEADER_BYTES + frame->count))
        return;
    peer_frame_seal(frame, &link->seal, out->bytes + out->count);
    out->count += FRAME_HEADER_BYTES;
    if (frame->count > 0)
        memcpy(out->bytes + out->count, frame->bytes, frame->count);
    out->count += frame->count;
}

static void
announce(struct peer_link *link, uint64_t count)
{
    append_frame(link, &(struct peer_frame){
                           .kind = FRAME_ANNOUNCED, .bytes = (const unsigned char *)&count, .count = sizeof(count)});
}

void
peer_link_send_frame(struct peer_link *link, struct peer_frame *frame, bool is_urgent)
{
    static const unsigned char nothing[LINK_WAKE_BYTES - FRAME_HEADER_BYTES];
    if (link->fd < 0 || link->state != LINK_OPEN)
        return;
    if (link->out.count - link->out.taken > LINK_BACKLOG_BYTES)
        link->state = LINK_GONE;
    if (frame->count > SENT_AT_MOST)
        link->state = LINK_NO_MEMORY;
    if (link->state == LINK_OPEN && frame->count > FRAME_BYTES_AT_MOST)
        announce(link, frame->count);
    if (link->state == LINK_OPEN)
        append_frame(link, frame);
    if (link->state == LINK_OPEN && is_urgent && link->wakes)
        append_frame(link, &(struct peer_frame){.kind = FRAME_WAKE, .bytes = nothing, .count = sizeof(nothing)});
    (void)peer_link_flush(link);
}

void
peer_link_send(struct peer_link *link, enum frame_kind kind, const void *bytes, size_t count)
{
    peer_link_send_frame(link, &(struct peer_frame){.kind = kind, .bytes = bytes, .count = count}, true);
}

void
peer_link_send_quietly(struct peer_link *link, enum frame_kind kind, const void *bytes, size_t count)
{
    peer_link_send_frame(link, &(struct peer_frame){.kind = kind, .bytes = bytes, .count = count}, false);
}

enum link_state
peer_link_finish(struct peer_link *link, int64_t deadline_ms)
{
    while (!peer_link_flush(link)) {
        if (!socket_wait(link->fd, POLLOUT, deadline_ms))
            return LINK_LATE;
    }
    return link->state;
}

/* ---- receiving ---- */

/* One frame at most waits unread, so what is kept stays below two frames. */
bool
peer_link_read(struct peer_link *link)
{
    struct link_bytes *in = &link->in;
    if (link->state != LINK_OPEN || !make_room(link, in, READ_BYTES))
        return false;
    size_t before = in->count;
    enum link_state got = socket_receive(link->fd, in->bytes, in->room, &in->count);
    if (got != LINK_LATE)
        link->state = got;
    ASSERT(link->state != LINK_LATE);
    return in->count > before;
}

/* How many bytes the next frame may have. */
static size_t
most_of_next(const struct peer_link *link)
{
    size_t most = link->announced > 0 ? link->announced : FRAME_BYTES_AT_MOST;
    return most < link->most ? most : link->most;
}

static bool
next_frame(struct peer_link *link, struct peer_frame *frame)
{
    const struct link_bytes *in = &link->in;
    if (link->state == LINK_ALTERED || in->count == in->taken)
        return false;
    long taken = peer_frame_parse(in->bytes + in->taken, in->count - in->taken, most_of_next(link), &link->seal, frame);
    if (taken < 0)
        link->state = LINK_ALTERED;
    if (taken <= 0)
        return false;
    link->in.taken += (size_t)taken;
    link->announced = 0;
    return true;
}

static void
take_announcement(struct peer_link *link, const struct peer_frame *frame)
{
    uint64_t count = 0;
    if (frame->count == sizeof(count))
        memcpy(&count, frame->bytes, sizeof(count));
    if (count <= FRAME_BYTES_AT_MOST || count > link->most)
        link->state = LINK_ALTERED;
    else
        link->announced = (size_t)count;
}

bool
peer_link_next(struct peer_link *link, struct peer_frame *frame)
{
    while (next_frame(link, frame)) {
        if (frame->kind == FRAME_ANNOUNCED)
            take_announcement(link, frame);
        else if (frame->kind != FRAME_WAKE)
            return true;
    }
    return false;
}

enum link_state
peer_link_await(struct peer_link *link, struct peer_frame *frame, int64_t deadline_ms)
{
    while (!peer_link_next(link, frame)) {
        if (link->state != LINK_OPEN)
            return link->state;
        if (!peer_link_read(link) && link->state == LINK_OPEN && !socket_wait(link->fd, POLLIN, deadline_ms))
            return LINK_LATE;
    }
    return LINK_OPEN;
}

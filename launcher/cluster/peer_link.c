/*
 * peer_link.c - see peer_link.h.
 */
#include "launcher/cluster/peer_link.h"

#include "launcher/cluster/serialize.h"
#include "launcher/common/xcalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 4096 };

/* In front of a frame's bytes. */
struct frame_header {
    uint32_t length, kind;
    unsigned char code[SEAL_CODE_BYTES];
};
_Static_assert(sizeof(struct frame_header) == FRAME_HEADER_BYTES, "no gaps");

long
peer_frame_parse(const unsigned char *bytes, size_t count, struct seal *seal, struct peer_frame *frame)
{
    struct frame_header header;
    if (count < sizeof(header))
        return 0;
    memcpy(&header, bytes, sizeof(header));
    if (header.length > FRAME_BYTES_AT_MOST || header.kind < FRAME_HEARTBEAT || header.kind >= FRAME_KINDS)
        return -1;
    if (count - sizeof(header) < header.length)
        return 0;
    bytes += sizeof(header);
    if (!seal_holds(seal, (struct seal_part[]){{&header, offsetof(struct frame_header, code)}, {bytes, header.length}},
                    header.code))
        return -1;
    *frame = (struct peer_frame){.kind = (enum peer_frame_kind)header.kind, .bytes = bytes, .count = header.length};
    return (long)(sizeof(header) + header.length);
}

size_t
peer_order_encode(const struct peer_order *order, unsigned char *bytes, size_t room)
{
    struct serialize_buffer to = {.bytes = bytes, .size = room};
    serialize_put_number(&to, (uint32_t)order->exit_code);
    serialize_put_number(&to, (uint32_t)order->signal);
    serialize_put_number(&to, (uint32_t)order->grace_ms);
    serialize_put_text(&to, order->text);
    return to.at;
}

bool
peer_order_decode(const void *bytes, size_t count, struct peer_order *order_p)
{
    struct peer_order order;
    struct serialize_buffer from = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = count};
    order.exit_code = (int)serialize_get_number(&from);
    order.signal = (int)serialize_get_number(&from);
    order.grace_ms = (int)serialize_get_number(&from);
    serialize_get_text(&from, order.text, sizeof(order.text));
    if (!serialize_is_complete(&from) || order.exit_code < 0 || order.exit_code > 255 || order.signal < 0 ||
        order.signal > 64 || order.grace_ms < 0 || order.grace_ms > 60000)
        return false;
    *order_p = order;
    return true;
}

void
peer_link_open(struct peer_link *link, int fd, const unsigned char key[SEAL_HASH_BYTES], bool is_root)
{
    int low = LINK_WAKE_BYTES;
    *link = (struct peer_link){.fd = fd};
    seal_open(&link->seal, key, is_root);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

void
peer_link_close(struct peer_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    free(link->in);
    free(link->out);
    *link = (struct peer_link){.fd = -1, .gone = true};
}

/* ---- sending ---- */

bool
peer_link_flush(struct peer_link *link)
{
    while (!link->gone && link->out_sent < link->out_count) {
        ssize_t sent =
            send(link->fd, link->out + link->out_sent, link->out_count - link->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return false;
        if (sent < 0)
            link->gone = true;
        else
            link->out_sent += (size_t)sent;
    }
    link->out_count = link->out_sent = 0;
    return true;
}

static void
link_append(struct peer_link *link, const void *bytes, size_t count)
{
    if (link->out_count + count > link->out_room) {
        link->out_room = (link->out_count + count) * 2;
        link->out = xrealloc(link->out, link->out_room);
    }
    if (count > 0)
        memcpy(link->out + link->out_count, bytes, count);
    link->out_count += count;
}

static void
append_frame(struct peer_link *link, enum peer_frame_kind kind, const void *bytes, size_t count)
{
    struct frame_header header = {.length = (uint32_t)count, .kind = (uint32_t)kind};
    seal_make(&link->seal, (struct seal_part[]){{&header, offsetof(struct frame_header, code)}, {bytes, count}},
              header.code);
    link_append(link, &header, sizeof(header));
    link_append(link, bytes, count);
}

static void
send_frame(struct peer_link *link, enum peer_frame_kind kind, const void *bytes, size_t count, bool wakes)
{
    static const unsigned char nothing[LINK_WAKE_BYTES - FRAME_HEADER_BYTES];
    if (link->fd < 0 || link->gone || count > FRAME_BYTES_AT_MOST)
        return;
    if (link->out_count - link->out_sent > LINK_BACKLOG_BYTES) {
        link->gone = true;
        return;
    }
    append_frame(link, kind, bytes, count);
    if (wakes)
        append_frame(link, FRAME_WAKE, nothing, sizeof(nothing));
    (void)peer_link_flush(link);
}

void
peer_link_send(struct peer_link *link, enum peer_frame_kind kind, const void *bytes, size_t count)
{
    send_frame(link, kind, bytes, count, true);
}

void
peer_link_send_quietly(struct peer_link *link, enum peer_frame_kind kind, const void *bytes, size_t count)
{
    send_frame(link, kind, bytes, count, false);
}

void
peer_link_send_order(struct peer_link *link, enum peer_frame_kind kind, const struct peer_order *order)
{
    unsigned char bytes[sizeof(*order) + 64];
    peer_link_send(link, kind, bytes, peer_order_encode(order, bytes, sizeof(bytes)));
}

/* ---- receiving ---- */

/* Frames that were taken make room. */
static void
move_up(struct peer_link *link)
{
    if (link->in_taken == 0)
        return;
    memmove(link->in, link->in + link->in_taken, link->in_count - link->in_taken);
    link->in_count -= link->in_taken;
    link->in_taken = 0;
}

/* One frame at most waits unread, so what is kept stays below two frames. */
void
peer_link_read(struct peer_link *link)
{
    if (link->fd < 0 || link->gone)
        return;
    move_up(link);
    if (link->in_room - link->in_count < READ_BYTES) {
        link->in_room = link->in_count + 2 * READ_BYTES;
        link->in = xrealloc(link->in, link->in_room);
    }
    ssize_t got = recv(link->fd, link->in + link->in_count, link->in_room - link->in_count, MSG_DONTWAIT);
    if (got > 0)
        link->in_count += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        link->gone = true;
}

static bool
next_frame(struct peer_link *link, struct peer_frame *frame)
{
    long taken = link->nonsense
                     ? 0
                     : peer_frame_parse(link->in + link->in_taken, link->in_count - link->in_taken, &link->seal, frame);
    if (taken < 0)
        link->gone = link->nonsense = true;
    if (taken <= 0)
        return false;
    link->in_taken += (size_t)taken;
    return true;
}

bool
peer_link_next(struct peer_link *link, struct peer_frame *frame)
{
    while (next_frame(link, frame)) {
        if (frame->kind != FRAME_WAKE)
            return true;
    }
    return false;
}

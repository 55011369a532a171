/*
 * peers_leaf.c - see peers_leaf.h.
 */
#include "launcher/cluster/peers_leaf.h"

#include "base/clock.h"
#include "launcher/cluster/peers.h"
#include "launcher/cluster/view_frame.h"

#include <string.h>

void
peers_leaf_open(struct peers_leaf *leaf, const struct hello *root, int rank, int fd, unsigned limit_s)
{
    *leaf = (struct peers_leaf){.rank = rank, .root = root, .limit_ms = (int)limit_s * 1000};
    addresses_host_id(leaf->host_id);
    peer_link_open(&leaf->link, fd);
    leaf->looked_ms = leaf->heard_ms = clock_now_ms();
}

void
peers_leaf_close(struct peers_leaf *leaf)
{
    peer_link_close(&leaf->link);
}

static void
hear(struct peers_leaf *leaf)
{
    struct peer_frame frame;
    struct peer_order order;
    peer_link_read(&leaf->link);
    while (peer_link_next(&leaf->link, &frame)) {
        leaf->heard_ms = clock_now_ms();
        leaf->asked_view = leaf->asked_view || frame.kind == FRAME_LOOK;
        if (frame.kind == FRAME_ASK) {
            leaf->asked = true;
            leaf->asked_stacks = frame.count > 0 && frame.bytes[0] != 0;
        }
        if (frame.kind != FRAME_END && frame.kind != FRAME_LEAVE)
            continue;
        if (!peer_order_decode(frame.bytes, frame.count, &order)) {
            leaf->link.gone = leaf->link.nonsense = true;
            return;
        }
        if (frame.kind == FRAME_END) {
            leaf->end = true;
            leaf->ending = order;
        } else {
            leaf->leave = true;
            leaf->exit_code = order.exit_code;
        }
    }
}

static void
tell(struct peers_leaf *leaf, const struct rank_view *view, bool wakes)
{
    unsigned char bytes[VIEW_BYTES_AT_MOST];
    size_t count = view_encode(view, bytes);
    if (wakes)
        peer_link_send(&leaf->link, FRAME_VIEW, bytes, count);
    else
        peer_link_send_quietly(&leaf->link, FRAME_VIEW, bytes, count);
    leaf->told = *view;
    leaf->said_ms = clock_now_ms();
}

void
peers_leaf_say_view(struct peers_leaf *leaf, const struct rank_view *view)
{
    leaf->asked_view = false;
    tell(leaf, view, true);
}

void
peers_leaf_step(struct peers_leaf *leaf, const struct rank_view *view)
{
    int64_t now_ms = clock_now_ms();
    /* Who did not look for a while (stopped, or starved) cannot have heard. */
    if (now_ms - leaf->looked_ms > PEERS_STALL_MS)
        leaf->heard_ms = now_ms;
    leaf->looked_ms = now_ms;
    hear(leaf);
    bool news = view_is_news(&leaf->told, view);
    if (news || now_ms - leaf->said_ms >= PEERS_HEARTBEAT_MS)
        tell(leaf, view, news);
    (void)peer_link_flush(&leaf->link);
    if (leaf->lost != NULL || leaf->leave)
        return;
    if (leaf->link.gone)
        leaf->lost = leaf->link.nonsense ? "it speaks another protocol" : "it closed the connection";
    else if (leaf->limit_ms > 0 && now_ms - leaf->heard_ms > leaf->limit_ms)
        leaf->lost = "it has been silent for the time of --heartbeat-timeout";
}

void
peers_leaf_say_problem(struct peers_leaf *leaf, const struct peer_order *problem)
{
    peer_link_send_order(&leaf->link, FRAME_PROBLEM, problem);
}

void
peers_leaf_say_done(struct peers_leaf *leaf, const struct rank_view *view)
{
    tell(leaf, view, false);
    peer_link_send(&leaf->link, FRAME_DONE, NULL, 0);
}

void
peers_leaf_say_report(struct peers_leaf *leaf, const char *text)
{
    leaf->asked = false;
    peer_link_send(&leaf->link, FRAME_REPORT, text, strnlen(text, FRAME_BYTES_AT_MOST));
}

void
peers_leaf_dial(const struct peers_leaf *leaf, struct peers_dial *dial)
{
    struct host_address known;
    bool is_known = addresses_of_peer(leaf->link.fd, &known);
    peers_dial_begin(dial, leaf->root, leaf->host_id, is_known ? &known : NULL, PEER_ENGINE, leaf->rank);
}

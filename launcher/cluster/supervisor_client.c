/* supervisor_client.c - see supervisor_client.h. */
#include "launcher/cluster/supervisor_client.h"

#include "base/clock.h"
#include "launcher/cluster/supervisor_server.h"

#include <string.h>

void
supervisor_client_open(struct supervisor_client *client, const struct handshake *root, int rank, int fd,
                       const unsigned char key[AUTH_BYTES], unsigned limit_s)
{
    *client = (struct supervisor_client){.rank = rank, .root = root, .limit_ms = (int)limit_s * 1000};
    addresses_host_id(client->host_id);
    supervisor_link_open(&client->link, fd, key, false);
    client->looked_ms = client->heard_ms = clock_now_ms();
}

static void
hear(struct supervisor_client *client)
{
    struct peer_frame frame;
    struct peer_order order;
    peer_link_read(&client->link);
    while (peer_link_next(&client->link, &frame)) {
        client->heard_ms = clock_now_ms();
        client->asked_view = client->asked_view || frame.kind == FRAME_LOOK;
        client->give_up = client->give_up || frame.kind == FRAME_GIVE_UP;
        if (frame.kind == FRAME_WANTED && frame.count == sizeof(client->wanted))
            memcpy(&client->wanted, frame.bytes, sizeof(client->wanted));
        if (frame.kind == FRAME_ASK) {
            client->asked = true;
            client->asked_stacks = frame.count > 0 && frame.bytes[0] != 0;
        }
        if (frame.kind != FRAME_END && frame.kind != FRAME_LEAVE)
            continue;
        if (!peer_order_decode(frame.bytes, frame.count, &order)) {
            client->link.state = LINK_ALTERED;
            return;
        }
        if (frame.kind == FRAME_END) {
            client->end = true;
            client->ending = order;
            client->end_ns = clock_ns();
        } else {
            client->leave = true;
            client->exit_code = order.exit_code;
        }
    }
}

static void
tell(struct supervisor_client *client, const struct rank_view *view, bool wakes)
{
    unsigned char bytes[RANK_VIEW_BYTES_AT_MOST];
    size_t count = rank_view_encode(view, bytes);
    if (wakes)
        peer_link_send(&client->link, FRAME_VIEW, bytes, count);
    else
        peer_link_send_quietly(&client->link, FRAME_VIEW, bytes, count);
    client->told = *view;
    client->said_ms = clock_now_ms();
}

void
supervisor_client_say_view(struct supervisor_client *client, const struct rank_view *view)
{
    client->asked_view = false;
    tell(client, view, true);
}

void
supervisor_client_step(struct supervisor_client *client, const struct rank_view *view)
{
    int64_t now_ms = clock_now_ms();
    /* A process that did not look for a while (stopped, or starved) cannot have received heartbeats. */
    if (now_ms - client->looked_ms > SUPERVISOR_SERVER_STALL_MS)
        client->heard_ms = now_ms;
    client->looked_ms = now_ms;
    hear(client);
    bool news = rank_view_is_urgent(&client->told, view);
    if (news || now_ms - client->said_ms >= SUPERVISOR_SERVER_HEARTBEAT_MS)
        tell(client, view, news);
    (void)peer_link_flush(&client->link);
    if (client->lost != NULL || client->leave)
        return;
    if (client->link.state != LINK_OPEN)
        client->lost = client->link.state == LINK_ALTERED ? PEER_ALTERED : "it closed the connection";
    else if (client->limit_ms > 0 && now_ms - client->heard_ms > client->limit_ms)
        client->lost = "it has been silent for the time of --heartbeat-timeout";
}

void
supervisor_client_say_done(struct supervisor_client *client, const struct rank_view *view)
{
    tell(client, view, false);
    peer_link_send(&client->link, FRAME_DONE, NULL, 0);
}

void
supervisor_client_say_report(struct supervisor_client *client, const char *text)
{
    client->asked = false;
    peer_link_send(&client->link, FRAME_REPORT, text, strnlen(text, FRAME_BYTES_AT_MOST));
}

void
supervisor_client_connect(const struct supervisor_client *client, struct supervisor_connect *connection)
{
    struct host_address known;
    bool is_known = addresses_of_peer(client->link.fd, &known);
    supervisor_connect_begin(connection, client->root, client->host_id, is_known ? &known : NULL, PEER_ENGINE,
                             client->rank);
}

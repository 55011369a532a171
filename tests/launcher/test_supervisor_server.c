/*
 * test_supervisor_server.c - supervisors over real sockets, once clients are connected (test_supervisor_connect.c):
 * they are heard, silence and closed connections are noticed, and the end reaches all clients, also one that comes
 * late. Heartbeats are heard and wake no supervisor; all else wakes its receiver, whatever lies before it unread.
 */
#include "tests/launcher/net_test.h"

#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

enum { SILENCE_S = 3 };

static struct net_test test;

static void
begin(void)
{
    net_test_open(&test, NET_WORLD, 0);
}

static void
end(void)
{
    net_test_close(&test);
}

TEST_GROUP(server, .timeout_s = 100, .setup = begin, .teardown = end);

TEST(clients_are_heard_and_hear_the_end)
{
    struct rank_view views[NET_WORLD] = {{.stage = RANK_STAGE_TRAINING, .step = 41}};
    for (int rank = 1; rank < NET_WORLD; ++rank) {
        net_open_client(&test, rank, 0);
        views[rank] = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 41 + (unsigned)rank};
        supervisor_client_step(&test.clients[rank], &views[rank]);
    }
    NET_STEP_UNTIL(&test, test.views[1].step == 42 && test.views[2].step == 43 && test.views[3].step == 44);

    supervisor_server_give_up(test.server, 2);
    NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[2], &views[2]), test.clients[2].give_up));

    struct peer_order order = {.exit_code = 3, .signal = 15, .grace_ms = 100};
    supervisor_server_say(test.server, FRAME_END, &order);
    for (int rank = 1; rank < NET_WORLD; ++rank) {
        NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[rank], &views[rank]), test.clients[rank].end));
        ck_assert_int_eq(test.clients[rank].ending.exit_code, 3);
        ck_assert_int_eq(test.clients[rank].ending.signal, 15);
        ck_assert(test.clients[rank].give_up == (rank == 2)); /* it was for one of them */
        ck_assert(!supervisor_server_all(test.server, PEERS_DONE));
        supervisor_client_say_done(&test.clients[rank], &views[rank]);
    }
    NET_STEP_UNTIL(&test, supervisor_server_all(test.server, PEERS_DONE));
    supervisor_server_say(test.server, FRAME_LEAVE, &(struct peer_order){.exit_code = 3});
    for (int rank = 1; rank < NET_WORLD; ++rank) {
        NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[rank], &views[rank]), test.clients[rank].leave));
        ck_assert_int_eq(test.clients[rank].exit_code, 3);
        ck_assert_ptr_null(test.clients[rank].lost);
        peer_link_close(&test.clients[rank].link);
    }
    NET_STEP_UNTIL(&test, supervisor_server_all(test.server, PEERS_LEFT));
    ck_assert_int_eq(net_state_of(&test, 1), PEER_DONE); /* and not lost */
}

/* ---- what wakes ---- */

static bool
is_readable(int fd, int wait_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, wait_ms) == 1;
}

/* Waits until so many unread bytes have come. */
static void
await_bytes(int fd, size_t count)
{
    int64_t deadline_ms = clock_now_ms() + NET_LIMIT_MS;
    for (int come = 0; ioctl(fd, FIONREAD, &come) == 0 && (size_t)come < count; poll(NULL, 0, 1))
        ck_assert_msg(clock_now_ms() < deadline_ms, "%d bytes of %zu have come", come, count);
}

static void
open_pair(struct peer_link *from, struct peer_link *to)
{
    static const unsigned char key[AUTH_BYTES] = {7};
    struct listener listener;
    struct error error;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ck_assert(listener_open(&listener, 0, 1, &error));
    address.sin_port = htons(listener.port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0); /* as on all of them */
    supervisor_link_open(from, fd, key, false);
    ck_assert(is_readable(listener.fd, NET_LIMIT_MS));
    supervisor_link_open(to, accept(listener.fd, NULL, NULL), key, true);
    listener_close(&listener);
}

TEST(what_must_be_heard_at_once_wakes_and_heartbeats_do_not)
{
    struct peer_link from, to;
    struct peer_frame frame;
    unsigned char bytes[FRAME_BYTES_AT_MOST] = {0};
    open_pair(&from, &to);
    srand(7);
    for (int turn = 0; turn < 200; ++turn) {
        int quiet = rand() % 20, heartbeats = 0;
        size_t count = turn % 10 == 0 ? sizeof(bytes) : (size_t)(rand() % 3000);
        for (int i = 0; i < quiet; ++i)
            peer_link_send_quietly(&from, FRAME_HEARTBEAT, NULL, 0);
        await_bytes(to.fd, (size_t)quiet * FRAME_HEADER_BYTES);
        /* What is left of what woke last time is less than what wakes, and heartbeats come on top of it. */
        ck_assert(turn > 0 || !is_readable(to.fd, 0));
        peer_link_send(&from, FRAME_REPORT, bytes, count);
        for (bool heard = false; !heard;) {
            if (is_readable(to.fd, 0))
                peer_link_read(&to);
            while (peer_link_next(&to, &frame)) {
                heartbeats += frame.kind == FRAME_HEARTBEAT;
                heard = heard || (frame.kind == FRAME_REPORT && frame.count == count);
            }
            ck_assert(heard || !peer_link_flush(&from) || is_readable(to.fd, NET_LIMIT_MS));
        }
        ck_assert_int_eq(heartbeats, quiet);
    }
    peer_link_close(&from);
    ck_assert(is_readable(to.fd, NET_LIMIT_MS));
    while (to.state == LINK_OPEN)
        peer_link_read(&to);
    ck_assert(!peer_link_next(&to, &frame));
    peer_link_close(&to);
}

TEST(a_heartbeat_is_heard_and_wakes_no_supervisor)
{
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1};
    net_open_client(&test, 2, 0);
    supervisor_client_step(&test.clients[2], &view); /* news */
    ck_assert(is_readable(supervisor_server_fd(test.server), NET_LIMIT_MS));
    NET_STEP_UNTIL(&test, test.views[2].step == 1);
    while (is_readable(supervisor_server_fd(test.server), 0))
        (void)supervisor_server_step(test.server, test.views);
    view.step = 2;
    test.clients[2].said_ms = 0;
    supervisor_client_step(&test.clients[2], &view);
    await_bytes(supervisor_server_peer(test.server, 2)->link.fd, FRAME_HEADER_BYTES);
    ck_assert(!is_readable(supervisor_server_fd(test.server), 0));
    NET_STEP_UNTIL(&test, test.views[2].step == 2);
}

TEST(a_report_is_asked_for_and_comes)
{
    struct rank_view view = {0};
    net_open_client(&test, 2, 0);
    test.clients[2].heard_ms -= 1000; /* without a limit no silence is too long */
    supervisor_client_step(&test.clients[2], &view);
    ck_assert_ptr_null(test.clients[2].lost);
    ck_assert(!test.clients[2].asked);
    supervisor_server_ask_report(test.server, 2, true);
    NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[2], &view), test.clients[2].asked));
    ck_assert(test.clients[2].asked_stacks);
    ck_assert_ptr_null(supervisor_server_peer(test.server, 2)->report);
    supervisor_client_say_report(&test.clients[2], "  rank 2:\n\x1b[2Jit sleeps\n");
    ck_assert(!test.clients[2].asked);
    NET_STEP_UNTIL(&test, supervisor_server_peer(test.server, 2)->report != NULL);
    ck_assert_str_eq(supervisor_server_peer(test.server, 2)->report, "  rank 2:\n?[2Jit sleeps\n");
}

TEST(every_client_gets_the_bytes_that_a_rank_gives)
{
    struct peer_frame frame = {0};
    net_open_client(&test, 2, 0);
    supervisor_server_give(test.server, 3, "address", sizeof("address"), true);
    struct peer_link *link = &test.clients[2].link;
    NET_STEP_UNTIL(&test, (peer_link_read(link), peer_link_next(link, &frame)));
    ck_assert_int_eq(frame.kind, FRAME_GIVEN);
    ck_assert_mem_eq(frame.bytes, "\3\0\0\0address", 4 + sizeof("address"));
    ck_assert_uint_eq(frame.count, 4 + sizeof("address"));
}

TEST(views_of_this_moment_are_asked_for)
{
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1};
    net_open_client(&test, 3, 0);
    supervisor_client_step(&test.clients[3], &view);
    NET_STEP_UNTIL(&test, test.views[3].step == 1);
    supervisor_server_ask_views(test.server);
    ck_assert(!supervisor_server_all(test.server, PEERS_ANSWERED));
    view.step = 2; /* which is no news, and waits for the next heartbeat otherwise */
    NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[3], &view), test.clients[3].asked_view));
    supervisor_client_say_view(&test.clients[3], &view);
    ck_assert(!test.clients[3].asked_view);
    NET_STEP_UNTIL(&test, supervisor_server_all(test.server, PEERS_ANSWERED));
    ck_assert_uint_eq(test.views[3].step, 2);
    peer_link_close(&test.clients[3].link);
    NET_STEP_UNTIL(&test, net_state_of(&test, 3) == PEER_LOST);
    supervisor_server_ask_views(test.server); /* no client is left to answer */
    ck_assert(supervisor_server_all(test.server, PEERS_ANSWERED));
}

TEST(who_comes_late_hears_of_the_end)
{
    struct rank_view view = {0};
    struct peer_order order = {.exit_code = 9};
    supervisor_server_say(test.server, FRAME_END, &order);
    net_open_client(&test, 2, 0);
    NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[2], &view), test.clients[2].end));
    ck_assert_int_eq(test.clients[2].ending.exit_code, 9);
}

TEST(the_engines_socket_is_handed_out_and_works)
{
    char byte = 0;
    int *socket = &supervisor_server_peer(test.server, 3)->engine_socket;
    ck_assert_int_lt(*socket, 0);
    int theirs = net_connect(&test, &test.root, PEER_ENGINE, 3, NULL);
    ck_assert_int_ge(theirs, 0);
    int ours = *socket;
    ck_assert_int_ge(ours, 0);
    *socket = -1;
    ck_assert_int_eq(net_state_of(&test, 3), PEER_AWAITED); /* that is the supervisor's */
    ck_assert_int_eq(send(theirs, "x", 1, MSG_NOSIGNAL), 1);
    ck_assert(is_readable(ours, NET_LIMIT_MS));
    ck_assert_int_eq(recv(ours, &byte, 1, 0), 1);
    ck_assert_int_eq(byte, 'x');
    close(ours);
    close(theirs);
}

TEST(a_closed_connection_is_a_loss)
{
    struct rank_view view = {0};
    net_open_client(&test, 1, 0);
    peer_link_close(&test.clients[1].link);
    NET_STEP_UNTIL(&test, net_state_of(&test, 1) == PEER_LOST);
    ck_assert_ptr_nonnull(supervisor_server_peer(test.server, 1)->lost);

    net_open_client(&test, 2, 0);
    supervisor_server_close(test.server);
    test.server = NULL;
    int64_t deadline_ms = clock_now_ms() + NET_LIMIT_MS;
    while (test.clients[2].lost == NULL && clock_now_ms() < deadline_ms)
        supervisor_client_step(&test.clients[2], &view);
    ck_assert_ptr_nonnull(test.clients[2].lost);
}

/* Who ends by itself has not succeeded, and one that stands between must not make a job end so. */
TEST(an_error_with_exit_code_0_is_no_error)
{
    struct peer_order order = {.exit_code = 0, .text = "all is well"};
    net_open_client(&test, 1, 0);
    net_open_client(&test, 2, 0);
    peer_order_send(&test.clients[1].link, FRAME_ERROR, &order);
    order.exit_code = 3;
    peer_order_send(&test.clients[2].link, FRAME_ERROR, &order);
    NET_STEP_UNTIL(&test, net_state_of(&test, 1) == PEER_LOST && supervisor_server_peer(test.server, 2)->has_error);
    ck_assert(!supervisor_server_peer(test.server, 1)->has_error);
}

/* A frame that the client did not send next: its connection is not believed any more. */
TEST(a_changed_frame_is_a_loss)
{
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 5};
    net_open_client(&test, 1, 0);
    ++test.clients[1].link.seal.sent; /* one is left out */
    supervisor_client_step(&test.clients[1], &view);
    NET_STEP_UNTIL(&test, net_state_of(&test, 1) == PEER_LOST);
    ck_assert_says(supervisor_server_peer(test.server, 1)->lost, "is damaged");
    ck_assert_uint_eq(test.views[1].step, 0);
}

TEST_GROUP(others, .timeout_s = 100, .teardown = end);

/* As many as one supervisor 0 may have to listen to. */
TEST(hundreds_of_clients)
{
    net_test_open(&test, NET_MOST, 0);
    for (int rank = 1; rank < NET_MOST; ++rank)
        net_open_client(&test, rank, 0);
    int heard = 0;
    for (int rank = 1; rank < NET_MOST; ++rank) {
        struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1000 + (unsigned)rank};
        supervisor_client_step(&test.clients[rank], &view);
    }
    NET_STEP_UNTIL(&test, (heard += heard < NET_MOST - 1 && test.views[heard + 1].step == 1001 + (unsigned)heard,
                           heard == NET_MOST - 1));
    struct peer_order order = {.exit_code = 7};
    supervisor_server_say(test.server, FRAME_END, &order);
    for (int rank = 1; rank < NET_MOST; ++rank) {
        struct rank_view view = {.stage = RANK_STAGE_TRAINING};
        NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[rank], &view), test.clients[rank].end));
    }
}

/* One client says something each second, the other nothing: only that one is lost. */
TEST(silence_is_a_loss)
{
    struct rank_view view = {0};
    net_test_open(&test, NET_WORLD, SILENCE_S);
    net_open_client(&test, 1, 0);
    net_open_client(&test, 2, 0);
    supervisor_client_step(&test.clients[2], &view);
    NET_STEP_UNTIL(&test, (supervisor_client_step(&test.clients[1], &view), net_state_of(&test, 2) == PEER_LOST));
    ck_assert_int_eq(net_state_of(&test, 1), PEER_HERE);
    ck_assert_says(supervisor_server_peer(test.server, 2)->lost, "silent");
}

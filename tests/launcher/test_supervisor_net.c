/*
 * test_supervisor_net.c - a client gets its engine a socket without waiting for any peer: it sends and receives
 * meanwhile, begins with the address that has worked, passes over one on which no process answers, and lets go when its
 * engine has gone.
 *
 * One thread plays both ends, step by step, so that an end that waits for the other waits for ever.
 */
#include "launcher/cluster/supervisor_net.h"

#include "base/supervisor_link.h"
#include "tests/launcher/net_test.h"

#include "tests/lib/test.h"

#include <arpa/inet.h>

enum { CLIENT = 2, TRIES = 100, FILLING = 3 };

/* A client with an engine that has joined, and supervisor 0 at 127.0.0.1; at 127.0.0.2 no process answers. */
static struct {
    struct net_test test;
    struct cluster cluster;
    struct engine_link link;
    struct rank_view view;
    struct supervisor_net net;
    int engine; /* its end of the link */
    int silent, filling[FILLING];
} play;

/* -1: another process has that port there. */
static int
listen_at(unsigned char last_byte, int backlog, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t length = sizeof(address);
    address.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | last_byte);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    ck_assert_int_eq(listen(fd, backlog), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* Who calls while the queue of callers is full is not answered: tcp(7), listen(2). */
static void
open_silent(struct listener *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}};
    play.silent = -1;
    for (int i = 0; i < TRIES && play.silent < 0; ++i) {
        listener->port = 0;
        listener->fd = listen_at(1, 16, &listener->port);
        play.silent = listen_at(2, 0, &listener->port);
        if (play.silent < 0)
            listener_close(listener);
    }
    ck_assert_int_ge(play.silent, 0);
    address.sin_port = htons(listener->port);
    for (int i = 0; i < FILLING; ++i) {
        play.filling[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(play.filling[i], (struct sockaddr *)&address, sizeof(address));
    }
}

static void
open_play(void)
{
    struct listener listener;
    int pair[2];
    memset(&play, 0, sizeof(play));
    open_silent(&listener);
    net_test_open_at(&play.test, &listener, NET_WORLD, 0);
    net_open_client(&play.test, CLIENT, 0);
    memset(play.test.root.host_id, 'x', HOST_ID_BYTES - 1); /* another host, which has published: */
    play.test.root.addresses = (struct host_addresses){
        .count = 2, .items = {{.family = 4, .bytes = {127, 0, 0, 2}}, {.family = 4, .bytes = {127, 0, 0, 1}}}};

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    play.engine = pair[1];
    play.cluster.world_size = NET_WORLD;
    play.cluster.member = &address_met; /* no launcher to watch */
    play.link = (struct engine_link){.epoll = -1, .listener = -1, .count = 1, .world_size = 2};
    play.link.slots = calloc(1, sizeof(*play.link.slots));
    play.link.slots[0] = (struct engine_slot){.fd = pair[0], .own_end = -1, .root_end = -1, .joined = true, .joins = 1};
    struct supervisor_net_job job = {
        .cluster = &play.cluster, .link = &play.link, .client = &play.test.clients[CLIENT]};
    supervisor_net_open(&play.net, &job, &play.view);
}

static void
close_play(void)
{
    supervisor_net_close(&play.net);
    engine_link_close(&play.link);
    net_test_close(&play.test);
    for (int i = 0; i < FILLING; ++i)
        close(play.filling[i]);
    close(play.silent);
    close(play.engine);
}

/* The engine has got the message that its socket is there. */
static bool
has_link(void)
{
    struct supervisor_message message;
    return recv(play.engine, &message, sizeof(message), MSG_DONTWAIT) == (ssize_t)sizeof(message) &&
           message.kind == SUPERVISOR_LINK;
}

TEST_GROUP(client, .timeout_s = 100, .setup = open_play, .teardown = close_play);

TEST(a_client_is_heard_and_hears_while_it_connects)
{
    struct peer_order order = {.exit_code = 5};
    (void)supervisor_net_step(&play.net);
    ck_assert(play.net.connecting);
    struct pollfd polled[SUPERVISOR_NET_FDS];
    supervisor_net_poll(&play.net, polled);
    ck_assert_int_eq(polled[SUPERVISOR_NET_CONNECT].fd, play.net.connection.fd);

    play.view = (struct rank_view){.stage = RANK_STAGE_RANK, .ended = true, .signal = 9};
    supervisor_client_step(&play.test.clients[CLIENT], &play.view);
    NET_STEP_UNTIL(&play.test, play.test.views[CLIENT].ended);
    ck_assert(play.net.connecting);
    supervisor_server_say(play.test.server, FRAME_END, &order);
    NET_STEP_UNTIL(&play.test, ((void)supervisor_net_step(&play.net), play.test.clients[CLIENT].end));
    NET_STEP_UNTIL(&play.test, ((void)supervisor_net_step(&play.net), has_link()));
    ck_assert(!play.net.connecting);
    ck_assert_int_eq(play.net.connection.tried, 1); /* the address of its own connection */
}

TEST(an_address_without_an_answer_is_passed_over)
{
    struct supervisor_connect connection;
    struct error error;
    int fd = -1;
    supervisor_connect_begin(&connection, &play.test.root, "this host", NULL, PEER_ENGINE, CLIENT);
    for (int i = 0; i < 10; ++i) {
        ck_assert_int_eq(supervisor_connect_step(&connection, &fd, &error), CONNECT_CONTINUES);
        (void)supervisor_server_step(play.test.server, play.test.views);
    }
    ck_assert_int_eq(connection.tried, 1);
    connection.step_deadline_ms = clock_now_ms(); /* it has waited long enough */
    NET_STEP_UNTIL(&play.test, supervisor_connect_step(&connection, &fd, &error) == CONNECT_DONE);
    ck_assert_int_eq(connection.tried, 2);
    ck_assert_int_ge(supervisor_server_peer(play.test.server, CLIENT)->engine_socket, 0);
    close(fd);
}

TEST(an_engine_that_has_gone_gets_no_connection)
{
    (void)supervisor_net_step(&play.net);
    ck_assert(play.net.connecting);
    play.link.slots[0].joined = false;
    (void)supervisor_net_step(&play.net);
    ck_assert(!play.net.connecting);

    play.link.slots[0].joined = true; /* another program of the rank's */
    ++play.link.slots[0].joins;
    NET_STEP_UNTIL(&play.test, ((void)supervisor_net_step(&play.net), has_link()));
}

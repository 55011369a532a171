/*
 * test_star.c - a leaf gets its engine a socket without waiting for anybody: it tells and hears meanwhile, begins with
 * the address that has worked, passes over one that nobody answers on, and lets go when its engine has gone.
 *
 * One thread plays both ends, step by step, so that whoever waits for the other waits for ever.
 */
#include "launcher/cluster/star.h"

#include "base/supervisor_link.h"
#include "tests/launcher/star_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAF = 2, TRIES = 100, FILLING = 3 };

/* A leaf with an engine that has joined, and supervisor 0 at 127.0.0.1; at 127.0.0.2 nobody answers. */
struct play {
    struct star_test test;
    struct cluster cluster;
    struct engine_link link;
    struct rank_view view;
    struct star star;
    int engine; /* its end of the link */
    int silent, filling[FILLING];
};

/* -1: somebody else has that port there. */
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
open_silent(struct play *play, struct listener *listener)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}};
    play->silent = -1;
    for (int i = 0; i < TRIES && play->silent < 0; ++i) {
        listener->port = 0;
        listener->fd = listen_at(1, 16, &listener->port);
        play->silent = listen_at(2, 0, &listener->port);
        if (play->silent < 0)
            listener_close(listener);
    }
    ck_assert_int_ge(play->silent, 0);
    address.sin_port = htons(listener->port);
    for (int i = 0; i < FILLING; ++i) {
        play->filling[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(play->filling[i], (struct sockaddr *)&address, sizeof(address));
    }
}

static void
open_play(struct play *play)
{
    struct listener listener;
    int pair[2];
    memset(play, 0, sizeof(*play));
    open_silent(play, &listener);
    star_test_open_at(&play->test, &listener, STAR_WORLD, 0);
    star_open_leaf(&play->test, LEAF, 0);
    memset(play->test.root.host_id, 'x', HOST_ID_BYTES - 1); /* another host, which has published: */
    play->test.root.addresses = (struct host_addresses){
        .count = 2, .items = {{.family = 4, .bytes = {127, 0, 0, 2}}, {.family = 4, .bytes = {127, 0, 0, 1}}}};

    ck_assert_int_eq(pipe2(play->cluster.pipe, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    play->engine = pair[1];
    play->cluster.world_size = STAR_WORLD;
    play->link = (struct engine_link){.fd = pair[0], .epoll = -1, .listener = -1, .joined = true, .joins = 1};
    struct star_job job = {.cluster = &play->cluster, .link = &play->link, .leaf = &play->test.leaves[LEAF]};
    star_open(&play->star, &job, &play->view);
}

static void
close_play(struct play *play)
{
    star_close(&play->star);
    engine_link_close(&play->link);
    peers_leaf_close(&play->test.leaves[LEAF]);
    peers_close(play->test.peers);
    for (int i = 0; i < FILLING; ++i)
        close(play->filling[i]);
    for (int i = 0; i < 2; ++i)
        close(play->cluster.pipe[i]);
    close(play->silent);
    close(play->engine);
}

/* The engine has been told that its socket is there. */
static bool
has_link(const struct play *play)
{
    struct supervisor_message message;
    return recv(play->engine, &message, sizeof(message), MSG_DONTWAIT) == (ssize_t)sizeof(message) &&
           message.kind == SUPERVISOR_LINKS;
}

START_TEST(a_leaf_is_heard_and_hears_while_it_dials)
{
    static struct play play;
    struct peer_order order = {.exit_code = 5};
    open_play(&play);
    (void)star_step(&play.star);
    ck_assert(play.star.dialing);
    struct pollfd polled[STAR_FDS];
    star_poll(&play.star, polled);
    ck_assert_int_eq(polled[STAR_DIAL].fd, play.star.dial.fd);

    play.view = (struct rank_view){.stage = RANK_STAGE_RANK, .ended = true, .signal = 9};
    peers_leaf_step(&play.test.leaves[LEAF], &play.view);
    STAR_STEP_UNTIL(&play.test, play.test.views[LEAF].ended);
    ck_assert(play.star.dialing);
    peers_say_end(play.test.peers, &order);
    STAR_STEP_UNTIL(&play.test, ((void)star_step(&play.star), play.test.leaves[LEAF].end));
    STAR_STEP_UNTIL(&play.test, ((void)star_step(&play.star), has_link(&play)));
    ck_assert(!play.star.dialing);
    ck_assert_int_eq(play.star.dial.tried, 1); /* the address of its own connection */
    close(peers_take_engine_socket(play.test.peers, LEAF));
    close_play(&play);
}
END_TEST

START_TEST(an_address_that_nobody_answers_on_is_passed_over)
{
    static struct play play;
    struct peers_dial dial;
    struct problem problem;
    int fd = -1;
    open_play(&play);
    peers_dial_begin(&dial, &play.test.root, "this host", NULL, PEER_ENGINE, LEAF);
    for (int i = 0; i < 10; ++i) {
        ck_assert_int_eq(peers_dial_step(&dial, &fd, &problem), DIAL_GOES_ON);
        (void)peers_step(play.test.peers, play.test.views);
    }
    ck_assert_int_eq(dial.tried, 1);
    dial.step_deadline_ms = clock_now_ms(); /* it has waited long enough */
    STAR_STEP_UNTIL(&play.test, peers_dial_step(&dial, &fd, &problem) == DIAL_DONE);
    ck_assert_int_eq(dial.tried, 2);
    int ours = peers_take_engine_socket(play.test.peers, LEAF);
    ck_assert_int_ge(ours, 0);
    close(ours);
    close(fd);
    close_play(&play);
}
END_TEST

START_TEST(who_has_gone_is_not_dialed_for)
{
    static struct play play;
    open_play(&play);
    (void)star_step(&play.star);
    ck_assert(play.star.dialing);
    play.link.joined = false;
    (void)star_step(&play.star);
    ck_assert(!play.star.dialing);

    play.link.joined = true; /* another program of the rank's */
    ++play.link.joins;
    STAR_STEP_UNTIL(&play.test, ((void)star_step(&play.star), has_link(&play)));
    close(peers_take_engine_socket(play.test.peers, LEAF));
    close_play(&play);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("star");
    TCase *tcase = tcase_create("leaf");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, a_leaf_is_heard_and_hears_while_it_dials);
    tcase_add_test(tcase, an_address_that_nobody_answers_on_is_passed_over);
    tcase_add_test(tcase, who_has_gone_is_not_dialed_for);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

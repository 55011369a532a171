/*
 * test_peers.c - the star over real sockets, once leaves are in (test_peers_dial.c): they are heard, silence and closed
 * connections are noticed, and the end reaches everybody, also who comes late. Heartbeats are heard and wake nobody;
 * all else wakes who is to hear it, whatever lies before it unread.
 */
#include "tests/launcher/star_test.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SILENCE_S = 3 };

START_TEST(leaves_are_heard_and_hear_the_end)
{
    static struct star_test test;
    struct rank_view views[STAR_WORLD] = {{.stage = RANK_STAGE_TRAINING, .step = 41}};
    star_test_open(&test, STAR_WORLD, 0);
    for (int rank = 1; rank < STAR_WORLD; ++rank) {
        star_open_leaf(&test, rank, 0);
        views[rank] = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 41 + (unsigned)rank};
        peers_leaf_step(&test.leaves[rank], &views[rank]);
    }
    STAR_STEP_UNTIL(&test, test.views[1].step == 42 && test.views[2].step == 43 && test.views[3].step == 44);

    struct peer_order order = {.exit_code = 3, .signal = 15, .grace_ms = 100};
    peers_say_end(test.peers, &order);
    for (int rank = 1; rank < STAR_WORLD; ++rank) {
        STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[rank], &views[rank]), test.leaves[rank].end));
        ck_assert_int_eq(test.leaves[rank].ending.exit_code, 3);
        ck_assert_int_eq(test.leaves[rank].ending.signal, 15);
        ck_assert(!peers_all_done(test.peers));
        peers_leaf_say_done(&test.leaves[rank], &views[rank]);
    }
    STAR_STEP_UNTIL(&test, peers_all_done(test.peers));
    peers_say_leave(test.peers, 3);
    for (int rank = 1; rank < STAR_WORLD; ++rank) {
        STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[rank], &views[rank]), test.leaves[rank].leave));
        ck_assert_int_eq(test.leaves[rank].exit_code, 3);
        ck_assert_ptr_null(test.leaves[rank].lost);
        peers_leaf_close(&test.leaves[rank]);
    }
    STAR_STEP_UNTIL(&test, peers_all_left(test.peers));
    ck_assert_int_eq(star_state_of(&test, 1), PEER_DONE); /* and not lost */
    peers_close(test.peers);
}
END_TEST

/* ---- what wakes ---- */

static bool
is_readable(int fd, int wait_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, wait_ms) == 1;
}

/* Waits until so many bytes have come, which nobody has read. */
static void
await_bytes(int fd, size_t count)
{
    int64_t deadline_ms = clock_now_ms() + STAR_LIMIT_MS;
    for (int come = 0; ioctl(fd, FIONREAD, &come) == 0 && (size_t)come < count; poll(NULL, 0, 1))
        ck_assert_msg(clock_now_ms() < deadline_ms, "%d bytes of %zu have come", come, count);
}

static void
open_pair(struct peer_link *from, struct peer_link *to)
{
    struct listener listener;
    struct problem problem;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ck_assert(listener_open(&listener, 1, &problem));
    address.sin_port = htons(listener.port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0); /* as on all of them */
    peer_link_open(from, fd);
    ck_assert(is_readable(listener.fd, STAR_LIMIT_MS));
    peer_link_open(to, accept(listener.fd, NULL, NULL));
    listener_close(&listener);
}

START_TEST(what_must_be_heard_at_once_wakes_and_heartbeats_do_not)
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
            ck_assert(heard || !peer_link_flush(&from) || is_readable(to.fd, STAR_LIMIT_MS));
        }
        ck_assert_int_eq(heartbeats, quiet);
    }
    peer_link_close(&from);
    ck_assert(is_readable(to.fd, STAR_LIMIT_MS));
    while (!to.gone)
        peer_link_read(&to);
    ck_assert(!peer_link_next(&to, &frame));
    peer_link_close(&to);
}
END_TEST

START_TEST(a_heartbeat_is_heard_and_wakes_nobody)
{
    static struct star_test test;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1};
    star_test_open(&test, STAR_WORLD, 0);
    star_open_leaf(&test, 2, 0);
    peers_leaf_step(&test.leaves[2], &view); /* news */
    ck_assert(is_readable(peers_fd(test.peers), STAR_LIMIT_MS));
    STAR_STEP_UNTIL(&test, test.views[2].step == 1);
    while (is_readable(peers_fd(test.peers), 0))
        (void)peers_step(test.peers, test.views);
    view.step = 2;
    test.leaves[2].said_ms = 0;
    peers_leaf_step(&test.leaves[2], &view);
    await_bytes(peers_look_at(test.peers, 2)->link.fd, FRAME_HEADER_BYTES);
    ck_assert(!is_readable(peers_fd(test.peers), 0));
    STAR_STEP_UNTIL(&test, test.views[2].step == 2);
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(a_report_is_asked_for_and_comes)
{
    static struct star_test test;
    struct rank_view view = {0};
    star_test_open(&test, STAR_WORLD, 0);
    star_open_leaf(&test, 2, 0);
    peers_leaf_step(&test.leaves[2], &view);
    ck_assert(!test.leaves[2].asked);
    peers_ask_report(test.peers, 2, true);
    STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[2], &view), test.leaves[2].asked));
    ck_assert(test.leaves[2].asked_stacks);
    ck_assert_ptr_null(peers_look_at(test.peers, 2)->report);
    peers_leaf_say_report(&test.leaves[2], "  rank 2:\n\x1b[2Jit sleeps\n");
    ck_assert(!test.leaves[2].asked);
    STAR_STEP_UNTIL(&test, peers_look_at(test.peers, 2)->report != NULL);
    ck_assert_str_eq(peers_look_at(test.peers, 2)->report, "  rank 2:\n?[2Jit sleeps\n");
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(views_of_this_moment_are_asked_for)
{
    static struct star_test test;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1};
    star_test_open(&test, STAR_WORLD, 0);
    star_open_leaf(&test, 3, 0);
    peers_leaf_step(&test.leaves[3], &view);
    STAR_STEP_UNTIL(&test, test.views[3].step == 1);
    peers_ask_views(test.peers);
    ck_assert(!peers_have_answered(test.peers));
    view.step = 2; /* which is no news, and waits for the next heartbeat otherwise */
    STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[3], &view), test.leaves[3].asked_view));
    peers_leaf_say_view(&test.leaves[3], &view);
    ck_assert(!test.leaves[3].asked_view);
    STAR_STEP_UNTIL(&test, peers_have_answered(test.peers));
    ck_assert_uint_eq(test.views[3].step, 2);
    peers_leaf_close(&test.leaves[3]);
    STAR_STEP_UNTIL(&test, star_state_of(&test, 3) == PEER_LOST);
    peers_ask_views(test.peers); /* nobody is there to answer */
    ck_assert(peers_have_answered(test.peers));
    peers_close(test.peers);
}
END_TEST

START_TEST(who_comes_late_hears_of_the_end)
{
    static struct star_test test;
    struct rank_view view = {0};
    struct peer_order order = {.exit_code = 9};
    star_test_open(&test, STAR_WORLD, 0);
    peers_say_end(test.peers, &order);
    star_open_leaf(&test, 2, 0);
    STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[2], &view), test.leaves[2].end));
    ck_assert_int_eq(test.leaves[2].ending.exit_code, 9);
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(the_engines_socket_is_handed_out_and_works)
{
    static struct star_test test;
    char byte = 0;
    star_test_open(&test, STAR_WORLD, 0);
    ck_assert_int_lt(peers_take_engine_socket(test.peers, 3), 0);
    int theirs = star_connect(&test, &test.root, PEER_ENGINE, 3);
    ck_assert_int_ge(theirs, 0);
    int ours = peers_take_engine_socket(test.peers, 3);
    ck_assert_int_ge(ours, 0);
    ck_assert_int_lt(peers_take_engine_socket(test.peers, 3), 0);
    ck_assert_int_eq(star_state_of(&test, 3), PEER_AWAITED); /* that is the supervisor's */
    ck_assert_int_eq(send(theirs, "x", 1, MSG_NOSIGNAL), 1);
    struct pollfd polled = {.fd = ours, .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, STAR_LIMIT_MS), 1);
    ck_assert_int_eq(recv(ours, &byte, 1, 0), 1);
    ck_assert_int_eq(byte, 'x');
    close(ours);
    close(theirs);
    peers_close(test.peers);
}
END_TEST

START_TEST(a_closed_connection_is_a_loss)
{
    static struct star_test test;
    struct rank_view view = {0};
    star_test_open(&test, STAR_WORLD, 0);
    star_open_leaf(&test, 1, 0);
    peers_leaf_close(&test.leaves[1]);
    STAR_STEP_UNTIL(&test, star_state_of(&test, 1) == PEER_LOST);
    ck_assert_ptr_nonnull(peers_look_at(test.peers, 1)->lost);

    star_open_leaf(&test, 2, 0);
    peers_close(test.peers);
    int64_t deadline_ms = clock_now_ms() + STAR_LIMIT_MS;
    while (test.leaves[2].lost == NULL && clock_now_ms() < deadline_ms)
        peers_leaf_step(&test.leaves[2], &view);
    ck_assert_ptr_nonnull(test.leaves[2].lost);
    peers_leaf_close(&test.leaves[2]);
}
END_TEST

/* As many as one supervisor 0 may have to listen to. */
START_TEST(hundreds_of_leaves)
{
    static struct star_test test;
    star_test_open(&test, STAR_MOST, 0);
    for (int rank = 1; rank < STAR_MOST; ++rank)
        star_open_leaf(&test, rank, 0);
    int heard = 0;
    for (int rank = 1; rank < STAR_MOST; ++rank) {
        struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1000 + (unsigned)rank};
        peers_leaf_step(&test.leaves[rank], &view);
    }
    STAR_STEP_UNTIL(&test, (heard += heard < STAR_MOST - 1 && test.views[heard + 1].step == 1001 + (unsigned)heard,
                            heard == STAR_MOST - 1));
    struct peer_order order = {.exit_code = 7};
    peers_say_end(test.peers, &order);
    for (int rank = 1; rank < STAR_MOST; ++rank) {
        struct rank_view view = {.stage = RANK_STAGE_TRAINING};
        STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[rank], &view), test.leaves[rank].end));
        peers_leaf_close(&test.leaves[rank]);
    }
    peers_close(test.peers);
}
END_TEST

/* One leaf says something each second, the other nothing: only that one is lost. */
START_TEST(silence_is_a_loss)
{
    static struct star_test test;
    struct rank_view view = {0};
    star_test_open(&test, STAR_WORLD, SILENCE_S);
    star_open_leaf(&test, 1, 0);
    star_open_leaf(&test, 2, 0);
    peers_leaf_step(&test.leaves[2], &view);
    STAR_STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[1], &view), star_state_of(&test, 2) == PEER_LOST));
    ck_assert_int_eq(star_state_of(&test, 1), PEER_HERE);
    ck_assert_ptr_nonnull(strstr(peers_look_at(test.peers, 2)->lost, "silent"));
    peers_leaf_close(&test.leaves[1]);
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("peers");
    TCase *tcase = tcase_create("star");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, leaves_are_heard_and_hear_the_end);
    tcase_add_test(tcase, what_must_be_heard_at_once_wakes_and_heartbeats_do_not);
    tcase_add_test(tcase, a_heartbeat_is_heard_and_wakes_nobody);
    tcase_add_test(tcase, a_report_is_asked_for_and_comes);
    tcase_add_test(tcase, views_of_this_moment_are_asked_for);
    tcase_add_test(tcase, who_comes_late_hears_of_the_end);
    tcase_add_test(tcase, the_engines_socket_is_handed_out_and_works);
    tcase_add_test(tcase, a_closed_connection_is_a_loss);
    tcase_add_test(tcase, hundreds_of_leaves);
    tcase_add_test(tcase, silence_is_a_loss);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

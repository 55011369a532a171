/*
 * test_peers.c - the star over real sockets: who knows the secret gets in and is heard, whoever does not is turned away
 * without harm, silence and closed connections are noticed, and the end reaches everybody, also who comes late.
 * Heartbeats are heard and wake nobody; all else wakes who is to hear it, whatever lies before it unread.
 */
#include "launcher/cluster/peers.h"

#include "base/clock.h"
#include "base/protocol.h"
#include "launcher/cluster/peers_dial.h"
#include "launcher/cluster/peers_leaf.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WORLD = 4, MANY = 301, STRANGERS = 100, LIMIT_MS = 60000, SILENCE_S = 3 };

/* A star whose leaves dial from a thread, as dialing waits for the answer. */
struct star_test {
    struct peers *peers;
    struct rank_view views[MANY];
    struct hello root;
    struct signals signals;
    struct peers_leaf leaves[MANY];
};

static void
open_star_of(struct star_test *test, int world_size, unsigned limit_s)
{
    struct listener listener;
    struct problem problem;
    memset(test, 0, sizeof(*test));
    test->signals.fd = -1;
    addresses_host_id(test->root.host_id);
    ck_assert(proof_random(test->root.secret, sizeof(test->root.secret)));
    ck_assert(listener_open(&listener, 16, &problem));
    test->root.port = listener.port;
    test->peers = peers_open(&listener, world_size, test->root.secret, limit_s, &problem);
    ck_assert_ptr_nonnull(test->peers);
}

static void
open_star(struct star_test *test, unsigned limit_s)
{
    open_star_of(test, WORLD, limit_s);
}

struct dialing {
    struct star_test *test;
    const struct hello *root;
    enum peer_purpose purpose;
    int rank, fd;
    struct problem problem;
    _Atomic bool over;
};

static void *
dial(void *data)
{
    struct dialing *dialing = data;
    dialing->fd = peers_dial(dialing->root, dialing->test->root.host_id, dialing->purpose, dialing->rank,
                             &dialing->test->signals, &dialing->problem);
    atomic_store(&dialing->over, true);
    return NULL;
}

/* The socket, or -1. */
static int
connect_leaf(struct star_test *test, const struct hello *root, enum peer_purpose purpose, int rank)
{
    struct dialing dialing = {.test = test, .root = root, .purpose = purpose, .rank = rank};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, dial, &dialing), 0);
    while (!atomic_load(&dialing.over)) {
        struct pollfd polled = {.fd = peers_fd(test->peers), .events = POLLIN};
        poll(&polled, 1, 1);
        (void)peers_step(test->peers, test->views);
    }
    pthread_join(thread, NULL);
    return dialing.fd;
}

static void
open_leaf(struct star_test *test, int rank, unsigned limit_s)
{
    int fd = connect_leaf(test, &test->root, PEER_SUPERVISOR, rank);
    ck_assert_int_ge(fd, 0);
    peers_leaf_open(&test->leaves[rank], &test->root, rank, fd, limit_s);
}

/* Steps supervisor 0 until the condition holds. */
#define STEP_UNTIL(test, condition)                                                   \
    do {                                                                              \
        int64_t deadline_ms = clock_now_ms() + LIMIT_MS;                              \
        while (!(condition)) {                                                        \
            struct pollfd polled = {.fd = peers_fd((test)->peers), .events = POLLIN}; \
            ck_assert_msg(clock_now_ms() < deadline_ms, "never: %s", #condition);     \
            poll(&polled, 1, 1);                                                      \
            (void)peers_step((test)->peers, (test)->views);                           \
        }                                                                             \
    } while (0)

static enum peer_state
state_of(const struct star_test *test, int rank)
{
    return peers_look_at(test->peers, rank)->state;
}

START_TEST(leaves_are_heard_and_hear_the_end)
{
    static struct star_test test;
    struct rank_view views[WORLD] = {{.stage = RANK_STAGE_TRAINING, .step = 41}};
    open_star(&test, 0);
    for (int rank = 1; rank < WORLD; ++rank) {
        open_leaf(&test, rank, 0);
        views[rank] = (struct rank_view){.stage = RANK_STAGE_TRAINING, .step = 41 + (unsigned)rank};
        peers_leaf_step(&test.leaves[rank], &views[rank]);
    }
    STEP_UNTIL(&test, test.views[1].step == 42 && test.views[2].step == 43 && test.views[3].step == 44);

    struct peer_order order = {.exit_code = 3, .signal = 15, .grace_ms = 100};
    peers_say_end(test.peers, &order);
    for (int rank = 1; rank < WORLD; ++rank) {
        STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[rank], &views[rank]), test.leaves[rank].end));
        ck_assert_int_eq(test.leaves[rank].ending.exit_code, 3);
        ck_assert_int_eq(test.leaves[rank].ending.signal, 15);
        ck_assert(!peers_all_done(test.peers));
        peers_leaf_say_done(&test.leaves[rank], &views[rank]);
    }
    STEP_UNTIL(&test, peers_all_done(test.peers));
    peers_say_leave(test.peers, 3);
    for (int rank = 1; rank < WORLD; ++rank) {
        STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[rank], &views[rank]), test.leaves[rank].leave));
        ck_assert_int_eq(test.leaves[rank].exit_code, 3);
        ck_assert_ptr_null(test.leaves[rank].lost);
        peers_leaf_close(&test.leaves[rank]);
    }
    STEP_UNTIL(&test, peers_all_left(test.peers));
    ck_assert_int_eq(state_of(&test, 1), PEER_DONE); /* and not lost */
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
    int64_t deadline_ms = clock_now_ms() + LIMIT_MS;
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
    ck_assert(is_readable(listener.fd, LIMIT_MS));
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
            ck_assert(heard || !peer_link_flush(&from) || is_readable(to.fd, LIMIT_MS));
        }
        ck_assert_int_eq(heartbeats, quiet);
    }
    peer_link_close(&from);
    ck_assert(is_readable(to.fd, LIMIT_MS));
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
    open_star(&test, 0);
    open_leaf(&test, 2, 0);
    peers_leaf_step(&test.leaves[2], &view); /* news */
    ck_assert(is_readable(peers_fd(test.peers), LIMIT_MS));
    STEP_UNTIL(&test, test.views[2].step == 1);
    while (is_readable(peers_fd(test.peers), 0))
        (void)peers_step(test.peers, test.views);
    view.step = 2;
    test.leaves[2].said_ms = 0;
    peers_leaf_step(&test.leaves[2], &view);
    await_bytes(peers_look_at(test.peers, 2)->link.fd, FRAME_HEADER_BYTES);
    ck_assert(!is_readable(peers_fd(test.peers), 0));
    STEP_UNTIL(&test, test.views[2].step == 2);
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(a_report_is_asked_for_and_comes)
{
    static struct star_test test;
    struct rank_view view = {0};
    open_star(&test, 0);
    open_leaf(&test, 2, 0);
    peers_leaf_step(&test.leaves[2], &view);
    ck_assert(!test.leaves[2].asked);
    peers_ask_report(test.peers, 2, true);
    STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[2], &view), test.leaves[2].asked));
    ck_assert(test.leaves[2].asked_stacks);
    ck_assert_ptr_null(peers_look_at(test.peers, 2)->report);
    peers_leaf_say_report(&test.leaves[2], "  rank 2:\n\x1b[2Jit sleeps\n");
    ck_assert(!test.leaves[2].asked);
    STEP_UNTIL(&test, peers_look_at(test.peers, 2)->report != NULL);
    ck_assert_str_eq(peers_look_at(test.peers, 2)->report, "  rank 2:\n?[2Jit sleeps\n");
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(views_of_this_moment_are_asked_for)
{
    static struct star_test test;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1};
    open_star(&test, 0);
    open_leaf(&test, 3, 0);
    peers_leaf_step(&test.leaves[3], &view);
    STEP_UNTIL(&test, test.views[3].step == 1);
    peers_ask_views(test.peers);
    ck_assert(!peers_have_answered(test.peers));
    view.step = 2; /* which is no news, and waits for the next heartbeat otherwise */
    STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[3], &view), test.leaves[3].asked_view));
    peers_leaf_say_view(&test.leaves[3], &view);
    ck_assert(!test.leaves[3].asked_view);
    STEP_UNTIL(&test, peers_have_answered(test.peers));
    ck_assert_uint_eq(test.views[3].step, 2);
    peers_leaf_close(&test.leaves[3]);
    STEP_UNTIL(&test, state_of(&test, 3) == PEER_LOST);
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
    open_star(&test, 0);
    peers_say_end(test.peers, &order);
    open_leaf(&test, 2, 0);
    STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[2], &view), test.leaves[2].end));
    ck_assert_int_eq(test.leaves[2].ending.exit_code, 9);
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(strangers_are_turned_away_and_do_no_harm)
{
    static struct star_test test;
    struct hello wrong;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 5};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    open_star(&test, 0);
    wrong = test.root;
    wrong.secret[31] ^= 1;
    ck_assert_int_lt(connect_leaf(&test, &wrong, PEER_SUPERVISOR, 1), 0);
    ck_assert_int_eq(state_of(&test, 1), PEER_AWAITED);

    int silent[STRANGERS], noise = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons(test.root.port);
    for (int i = 0; i < STRANGERS; ++i) {
        silent[i] = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(silent[i], (struct sockaddr *)&address, sizeof(address)), 0);
        (void)peers_step(test.peers, test.views);
    }
    ck_assert_int_eq(connect(noise, (struct sockaddr *)&address, sizeof(address)), 0);
    char junk[4096];
    memset(junk, 'G', sizeof(junk));
    ck_assert_int_gt(send(noise, junk, sizeof(junk), MSG_NOSIGNAL), 0);

    open_leaf(&test, 1, 0);
    peers_leaf_step(&test.leaves[1], &view);
    STEP_UNTIL(&test, test.views[1].step == 5);
    /* A second one for the same rank knows the secret, and is still not taken for it. */
    int second = connect_leaf(&test, &test.root, PEER_SUPERVISOR, 1);
    ck_assert_int_eq(state_of(&test, 1), PEER_HERE);
    if (second >= 0)
        close(second);
    view.step = 6;
    view.ended = true;
    peers_leaf_step(&test.leaves[1], &view);
    STEP_UNTIL(&test, test.views[1].step == 6);
    for (int i = 0; i < STRANGERS; ++i)
        close(silent[i]);
    close(noise);
    peers_leaf_close(&test.leaves[1]);
    peers_close(test.peers);
}
END_TEST

/* A connection that cannot be taken does not keep supervisor 0 busy, and is taken later. */
START_TEST(no_descriptor_is_left_for_a_while)
{
    static struct star_test test;
    struct rlimit before, low;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    open_star(&test, 0);
    address.sin_port = htons(test.root.port);
    int stranger = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    int next = dup(stranger);
    close(next);
    low.rlim_cur = (rlim_t)next;
    (void)peers_step(test.peers, test.views); /* a heartbeat is due: not in between */
    ck_assert_int_eq(connect(stranger, (struct sockaddr *)&address, sizeof(address)), 0);
    struct pollfd polled = {.fd = peers_fd(test.peers), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, LIMIT_MS), 1);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    (void)peers_step(test.peers, test.views);
    int ready = poll(&polled, 1, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(ready, 0);
    open_leaf(&test, 1, 0);
    peers_leaf_close(&test.leaves[1]);
    close(stranger);
    peers_close(test.peers);
}
END_TEST

/* Whoever sits at the address must know the secret too. */
START_TEST(an_impostor_is_no_supervisor_0)
{
    static struct star_test test;
    struct listener listener;
    struct problem problem;
    struct proof_challenge challenge;
    struct proof_answer answer;
    unsigned char junk[sizeof(struct proof_welcome)] = {0};
    memset(&test, 0, sizeof(test));
    test.signals.fd = -1;
    ck_assert(listener_open(&listener, 16, &problem));
    test.root.port = listener.port;
    struct hello root = test.root;
    addresses_host_id(test.root.host_id);
    memcpy(root.host_id, test.root.host_id, sizeof(root.host_id));

    struct dialing dialing = {.test = &test, .root = &root, .purpose = PEER_SUPERVISOR, .rank = 1};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, dial, &dialing), 0);
    while (!atomic_load(&dialing.over)) {
        struct pollfd polled = {.fd = listener.fd, .events = POLLIN};
        poll(&polled, 1, 1);
        int fd = accept(listener.fd, NULL, NULL);
        if (fd < 0)
            continue;
        ck_assert(proof_challenge_make(&challenge));
        ck_assert_int_eq(send(fd, &challenge, sizeof(challenge), MSG_NOSIGNAL), (ssize_t)sizeof(challenge));
        if (recv(fd, &answer, sizeof(answer), MSG_WAITALL) == (ssize_t)sizeof(answer))
            (void)!send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
        close(fd);
    }
    pthread_join(thread, NULL);
    ck_assert_int_lt(dialing.fd, 0);
    listener_close(&listener);
}
END_TEST

START_TEST(the_engines_socket_is_handed_out_and_works)
{
    static struct star_test test;
    char byte = 0;
    open_star(&test, 0);
    ck_assert_int_lt(peers_take_engine_socket(test.peers, 3), 0);
    int theirs = connect_leaf(&test, &test.root, PEER_ENGINE, 3);
    ck_assert_int_ge(theirs, 0);
    int ours = peers_take_engine_socket(test.peers, 3);
    ck_assert_int_ge(ours, 0);
    ck_assert_int_lt(peers_take_engine_socket(test.peers, 3), 0);
    ck_assert_int_eq(state_of(&test, 3), PEER_AWAITED); /* that is the supervisor's */
    ck_assert_int_eq(send(theirs, "x", 1, MSG_NOSIGNAL), 1);
    struct pollfd polled = {.fd = ours, .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, LIMIT_MS), 1);
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
    open_star(&test, 0);
    open_leaf(&test, 1, 0);
    peers_leaf_close(&test.leaves[1]);
    STEP_UNTIL(&test, state_of(&test, 1) == PEER_LOST);
    ck_assert_ptr_nonnull(peers_look_at(test.peers, 1)->lost);

    open_leaf(&test, 2, 0);
    peers_close(test.peers);
    int64_t deadline_ms = clock_now_ms() + LIMIT_MS;
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
    open_star_of(&test, MANY, 0);
    for (int rank = 1; rank < MANY; ++rank)
        open_leaf(&test, rank, 0);
    int heard = 0;
    for (int rank = 1; rank < MANY; ++rank) {
        struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 1000 + (unsigned)rank};
        peers_leaf_step(&test.leaves[rank], &view);
    }
    STEP_UNTIL(&test,
               (heard += heard < MANY - 1 && test.views[heard + 1].step == 1001 + (unsigned)heard, heard == MANY - 1));
    struct peer_order order = {.exit_code = 7};
    peers_say_end(test.peers, &order);
    for (int rank = 1; rank < MANY; ++rank) {
        struct rank_view view = {.stage = RANK_STAGE_TRAINING};
        STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[rank], &view), test.leaves[rank].end));
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
    open_star(&test, SILENCE_S);
    open_leaf(&test, 1, 0);
    open_leaf(&test, 2, 0);
    peers_leaf_step(&test.leaves[2], &view);
    STEP_UNTIL(&test, (peers_leaf_step(&test.leaves[1], &view), state_of(&test, 2) == PEER_LOST));
    ck_assert_int_eq(state_of(&test, 1), PEER_HERE);
    ck_assert_ptr_nonnull(strstr(peers_look_at(test.peers, 2)->lost, "silent"));
    peers_leaf_close(&test.leaves[1]);
    peers_leaf_close(&test.leaves[2]);
    peers_close(test.peers);
}
END_TEST

START_TEST(nobody_there_is_a_problem_that_names_the_addresses)
{
    static struct star_test test;
    struct listener listener;
    struct problem problem;
    memset(&test, 0, sizeof(test));
    ck_assert(listener_open(&listener, 1, &problem)); /* a port that was somebody's */
    struct hello root = {.port = listener.port, .host = "node7"};
    listener_close(&listener);
    root.addresses = (struct host_addresses){.count = 1, .items = {{.family = 4, .bytes = {127, 0, 0, 1}}}};
    struct signals signals = {.fd = -1};
    ck_assert_int_lt(peers_dial(&root, "another host", PEER_SUPERVISOR, 1, &signals, &problem), 0);
    ck_assert_ptr_nonnull(strstr(problem.text, "node7"));
    ck_assert_ptr_nonnull(strstr(problem.text, "127.0.0.1"));
}
END_TEST

START_TEST(only_a_signal_that_asks_for_the_end_ends_dialing)
{
    static struct star_test test;
    struct problem problem;
    open_star(&test, 0);
    ck_assert(signals_take_over(&test.signals, &problem));
    kill(getpid(), SIGCHLD); /* blocked now: they wait, as while a supervisor dials */
    kill(getpid(), SIGUSR1);
    int fd = connect_leaf(&test, &test.root, PEER_SUPERVISOR, 1);
    ck_assert_int_ge(fd, 0);
    close(fd);
    peers_close(test.peers);

    struct listener silent;
    ck_assert(listener_open(&silent, 1, &problem));
    test.root.port = silent.port;
    kill(getpid(), SIGTERM);
    ck_assert_int_lt(peers_dial(&test.root, test.root.host_id, PEER_SUPERVISOR, 1, &test.signals, &problem), 0);
    ck_assert_ptr_nonnull(strstr(problem.text, "asked to end"));
    listener_close(&silent);
    while (signals_next(&test.signals) != 0) {
    }
    close(test.signals.fd);
    signals_give_back(&test.signals);
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
    tcase_add_test(tcase, strangers_are_turned_away_and_do_no_harm);
    tcase_add_test(tcase, no_descriptor_is_left_for_a_while);
    tcase_add_test(tcase, an_impostor_is_no_supervisor_0);
    tcase_add_test(tcase, the_engines_socket_is_handed_out_and_works);
    tcase_add_test(tcase, a_closed_connection_is_a_loss);
    tcase_add_test(tcase, hundreds_of_leaves);
    tcase_add_test(tcase, silence_is_a_loss);
    tcase_add_test(tcase, nobody_there_is_a_problem_that_names_the_addresses);
    tcase_add_test(tcase, only_a_signal_that_asks_for_the_end_ends_dialing);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * star_test.h - a star over real sockets for tests: supervisor 0, and leaves that dial from threads of their own, as
 * dialing waits for the answer.
 */
#ifndef DDPRUN_TESTS_LAUNCHER_STAR_TEST_H
#define DDPRUN_TESTS_LAUNCHER_STAR_TEST_H

#include "base/clock.h"
#include "launcher/cluster/peers.h"
#include "launcher/cluster/peers_dial.h"
#include "launcher/cluster/peers_leaf.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { STAR_WORLD = 4, STAR_MOST = 301, STAR_LIMIT_MS = 60000 };

/* Large: keep it static. */
struct star_test {
    struct peers *peers;
    struct rank_view views[STAR_MOST];
    struct hello root;
    struct signals signals;
    struct peers_leaf leaves[STAR_MOST];
};

/* One call of peers_dial() in a thread. `test` lends its signals and the host's name. */
struct star_dialing {
    struct star_test *test;
    const struct hello *root; /* whom to dial, and by which secret */
    enum peer_purpose purpose;
    int rank, fd;
    struct problem problem;
    _Atomic bool over;
    pthread_t thread;
};

/* `limit_s`: how long a leaf may be silent; 0: for ever. Close with peers_close(test->peers). */
void star_test_open(struct star_test *test, int world_size, unsigned limit_s);
/* The same with a listener of the caller's, which it takes over. */
void star_test_open_at(struct star_test *test, struct listener *listener, int world_size, unsigned limit_s);

/* The caller waits for `over` and joins the thread. */
void star_dial(struct star_dialing *dialing);

/* Dials while supervisor 0 is stepped. The socket, or -1. */
int star_connect(struct star_test *test, const struct hello *root, enum peer_purpose purpose, int rank);

/* Makes test->leaves[rank] one that is connected. */
void star_open_leaf(struct star_test *test, int rank, unsigned limit_s);

enum peer_state star_state_of(const struct star_test *test, int rank);

/* Steps supervisor 0 until the condition holds. */
#define STAR_STEP_UNTIL(test, condition)                                              \
    do {                                                                              \
        int64_t deadline_ms = clock_now_ms() + STAR_LIMIT_MS;                         \
        while (!(condition)) {                                                        \
            struct pollfd polled = {.fd = peers_fd((test)->peers), .events = POLLIN}; \
            ck_assert_msg(clock_now_ms() < deadline_ms, "never: %s", #condition);     \
            poll(&polled, 1, 1);                                                      \
            (void)peers_step((test)->peers, (test)->views);                           \
        }                                                                             \
    } while (0)

#endif

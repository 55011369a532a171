/*
 * net_test.h - supervisors over real sockets for tests: supervisor 0, and clients that connect from threads of their
 * own, as connecting waits for the answer.
 */
#ifndef DDPRUN_TESTS_LAUNCHER_NET_TEST_H
#define DDPRUN_TESTS_LAUNCHER_NET_TEST_H

#include "base/clock.h"
#include "launcher/cluster/supervisor_client.h"
#include "launcher/cluster/supervisor_connect.h"
#include "launcher/cluster/supervisor_server.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { NET_WORLD = 4, NET_MOST = 301, NET_LIMIT_MS = 60000 };

/* Large: keep it static. */
struct net_test {
    struct supervisor_server *server;
    struct rank_view views[NET_MOST];
    struct handshake root;
    struct signals signals;
    struct supervisor_client clients[NET_MOST];
};

/* One call of supervisor_connect() in a thread. `test` lends its signals and the host's name. */
struct net_connecting {
    struct net_test *test;
    const struct handshake *root; /* whom to connect to, and by which secret */
    enum peer_purpose purpose;
    int rank, fd;
    unsigned char key[AUTH_BYTES]; /* of its session */
    struct error error;
    _Atomic bool over;
    pthread_t thread;
};

/* `limit_s`: how long a client may be silent; 0: for ever. Close with net_test_close(). */
void net_test_open(struct net_test *test, int world_size, unsigned limit_s);
/* The same with a listener of the caller's, which it takes over. */
void net_test_open_at(struct net_test *test, struct listener *listener, int world_size, unsigned limit_s);
/* Closes all clients, and supervisor 0 unless the test has. */
void net_test_close(struct net_test *test);

/* The caller waits for `over` and joins the thread. */
void net_connect_begin(struct net_connecting *connecting);

/* Connects while supervisor 0 is stepped. The socket, or -1; `key`: NULL, or where that of its session goes. */
int net_connect(struct net_test *test, const struct handshake *root, enum peer_purpose purpose, int rank,
                unsigned char *key);

/* Makes test->clients[rank] one that is connected. */
void net_open_client(struct net_test *test, int rank, unsigned limit_s);

enum peer_state net_state_of(const struct net_test *test, int rank);

/* Steps supervisor 0 until the condition holds. */
#define NET_STEP_UNTIL(test, condition)                                                            \
    do {                                                                                           \
        int64_t deadline_ms = clock_now_ms() + NET_LIMIT_MS;                                       \
        while (!(condition)) {                                                                     \
            struct pollfd polled = {.fd = supervisor_server_fd((test)->server), .events = POLLIN}; \
            ck_assert_msg(clock_now_ms() < deadline_ms, "never: %s", #condition);                  \
            poll(&polled, 1, 1);                                                                   \
            (void)supervisor_server_step((test)->server, (test)->views);                           \
        }                                                                                          \
    } while (0)

#endif

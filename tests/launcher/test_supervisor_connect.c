/*
 * test_supervisor_connect.c - connections to supervisor 0, over real sockets: who does not know the secret is rejected
 * without harm, on either side; who cannot be taken in now is later; and connecting ends where it must, with a line
 * that says why.
 */
#include "tests/launcher/net_test.h"

#include "tests/test.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { STRANGERS = 100 };

/* The system's, but for an error that it is to have. */
static int refusal;

int
accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags)
{
    errno = refusal;
    return refusal != 0 ? -1 : (int)syscall(SYS_accept4, fd, address.__sockaddr__, length, flags);
}

TEST_GROUP(connect, .timeout_s = 100);

static struct net_test test;

TEST(strangers_are_turned_away_and_do_no_harm)
{
    struct handshake wrong;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 5};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    net_test_open(&test, NET_WORLD, 0);
    wrong = test.root;
    wrong.secret[31] ^= 1;
    ck_assert_int_lt(net_connect(&test, &wrong, PEER_SUPERVISOR, 1, NULL), 0);
    ck_assert_int_eq(net_state_of(&test, 1), PEER_AWAITED);

    int silent[STRANGERS], noise = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons(test.root.port);
    for (int i = 0; i < STRANGERS; ++i) {
        silent[i] = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(silent[i], (struct sockaddr *)&address, sizeof(address)), 0);
        (void)supervisor_server_step(test.server, test.views);
    }
    ck_assert_int_eq(connect(noise, (struct sockaddr *)&address, sizeof(address)), 0);
    char junk[4096];
    memset(junk, 'G', sizeof(junk));
    ck_assert_int_gt(send(noise, junk, sizeof(junk), MSG_NOSIGNAL), 0);

    net_open_client(&test, 1, 0);
    supervisor_client_step(&test.clients[1], &view);
    NET_STEP_UNTIL(&test, test.views[1].step == 5);
    /* A second one for the same rank knows the secret, and is still not taken for it. */
    int second = net_connect(&test, &test.root, PEER_SUPERVISOR, 1, NULL);
    ck_assert_int_eq(net_state_of(&test, 1), PEER_HERE);
    if (second >= 0)
        close(second);
    view.step = 6;
    view.ended = true;
    supervisor_client_step(&test.clients[1], &view);
    NET_STEP_UNTIL(&test, test.views[1].step == 6);
    for (int i = 0; i < STRANGERS; ++i)
        close(silent[i]);
    close(noise);
    peer_link_close(&test.clients[1].link);
    supervisor_server_close(test.server);
}

/* A connection that cannot be taken does not keep supervisor 0 busy, and is taken later. */
TEST(no_descriptor_is_left_for_a_while)
{
    struct rlimit before, low;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    net_test_open(&test, NET_WORLD, 0);
    address.sin_port = htons(test.root.port);
    int stranger = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    int next = dup(stranger);
    close(next);
    low.rlim_cur = (rlim_t)next;
    (void)supervisor_server_step(test.server, test.views); /* a heartbeat is due: not in between */
    ck_assert_int_eq(connect(stranger, (struct sockaddr *)&address, sizeof(address)), 0);
    struct pollfd polled = {.fd = supervisor_server_fd(test.server), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, NET_LIMIT_MS), 1);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    (void)supervisor_server_step(test.server, test.views);
    int ready = poll(&polled, 1, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(ready, 0);
    net_open_client(&test, 1, 0);
    peer_link_close(&test.clients[1].link);
    close(stranger);
    supervisor_server_close(test.server);
}

static const int refusals[] = {ENOBUFS, ENOMEM, ENFILE};

/* Nor does any other reason for which the system takes no connection. */
TABLE_TEST(no_connection_is_taken_for_a_while, refusals)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    net_test_open(&test, NET_WORLD, 0);
    address.sin_port = htons(test.root.port);
    int stranger = socket(AF_INET, SOCK_STREAM, 0);
    (void)supervisor_server_step(test.server, test.views); /* a heartbeat is due: not in between */
    ck_assert_int_eq(connect(stranger, (struct sockaddr *)&address, sizeof(address)), 0);
    struct pollfd polled = {.fd = supervisor_server_fd(test.server), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, NET_LIMIT_MS), 1);
    refusal = refusals[_i];
    (void)supervisor_server_step(test.server, test.views);
    ck_assert_int_eq(poll(&polled, 1, 0), 0);
    refusal = 0;
    net_open_client(&test, 1, 0);
    peer_link_close(&test.clients[1].link);
    close(stranger);
    supervisor_server_close(test.server);
}

/* The process at the address must know the secret too. */
TEST(an_impostor_is_no_supervisor_0)
{
    struct listener listener;
    struct error error;
    struct auth_challenge challenge;
    struct auth_answer answer;
    unsigned char junk[sizeof(struct auth_welcome)] = {0};
    memset(&test, 0, sizeof(test));
    test.signals.fd = -1;
    ck_assert(listener_open(&listener, 0, 16, &error));
    test.root.port = listener.port;
    struct handshake root = test.root;
    addresses_host_id(test.root.host_id);
    memcpy(root.host_id, test.root.host_id, sizeof(root.host_id));

    struct net_connecting connecting = {.test = &test, .root = &root, .purpose = PEER_SUPERVISOR, .rank = 1};
    net_connect_begin(&connecting);
    while (!atomic_load(&connecting.over)) {
        struct pollfd polled = {.fd = listener.fd, .events = POLLIN};
        poll(&polled, 1, 1);
        int fd = accept(listener.fd, NULL, NULL);
        if (fd < 0)
            continue;
        ck_assert(auth_challenge_make(&challenge, NULL));
        ck_assert_int_eq(send(fd, &challenge, sizeof(challenge), MSG_NOSIGNAL), (ssize_t)sizeof(challenge));
        if (recv(fd, &answer, sizeof(answer), MSG_WAITALL) == (ssize_t)sizeof(answer))
            (void)!send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
        close(fd);
    }
    pthread_join(connecting.thread, NULL);
    ck_assert_int_lt(connecting.fd, 0);
    listener_close(&listener);
}

TEST(no_listener_is_an_error_that_names_the_addresses)
{
    unsigned char key[AUTH_BYTES];
    struct listener listener;
    struct error error;
    memset(&test, 0, sizeof(test));
    ck_assert(listener_open(&listener, 0, 1, &error)); /* a port that was in use before */
    struct handshake root = {.port = listener.port, .host = "node7"};
    listener_close(&listener);
    root.addresses = (struct host_addresses){.count = 1, .items = {{.family = 4, .bytes = {127, 0, 0, 1}}}};
    struct signals signals = {.fd = -1};
    ck_assert_int_lt(supervisor_connect(&root, "another host", PEER_SUPERVISOR, 1, &signals, key, &error), 0);
    ck_assert_ptr_nonnull(strstr(error.text, "node7"));
    ck_assert_ptr_nonnull(strstr(error.text, "127.0.0.1"));
}

TEST(only_a_signal_that_asks_for_the_end_ends_connecting)
{
    unsigned char key[AUTH_BYTES];
    struct error error;
    net_test_open(&test, NET_WORLD, 0);
    ck_assert(signals_take_over(&test.signals, &error));
    kill(getpid(), SIGCHLD); /* blocked now: they wait, as while a supervisor connects */
    kill(getpid(), SIGUSR1);
    int fd = net_connect(&test, &test.root, PEER_SUPERVISOR, 1, NULL);
    ck_assert_int_ge(fd, 0);
    close(fd);
    supervisor_server_close(test.server);

    struct listener silent;
    ck_assert(listener_open(&silent, 0, 1, &error));
    test.root.port = silent.port;
    kill(getpid(), SIGTERM);
    ck_assert_int_lt(supervisor_connect(&test.root, test.root.host_id, PEER_SUPERVISOR, 1, &test.signals, key, &error),
                     0);
    ck_assert_ptr_nonnull(strstr(error.text, "asked to end"));
    listener_close(&silent);
    while (signals_next(&test.signals) != 0) {
    }
    close(test.signals.fd);
    signals_give_back(&test.signals);
}

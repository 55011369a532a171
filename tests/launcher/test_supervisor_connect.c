/*
 * test_supervisor_connect.c - connections to supervisor 0, over real sockets: who does not know the secret is rejected
 * without harm, on either side; who cannot be taken in now is later; and connecting ends where it must, with a line
 * that says why.
 */
#include "tests/launcher/net_test.h"

#include "tests/lib/test.h"

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

/* A stranger's connection to supervisor 0. */
static int
call(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(test.root.port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

TEST_GROUP(connect, .timeout_s = 100, .setup = begin, .teardown = end);

TEST(strangers_are_turned_away_and_do_no_harm)
{
    struct handshake wrong;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 5};
    wrong = test.root;
    wrong.secret[31] ^= 1;
    ck_assert_int_lt(net_connect(&test, &wrong, PEER_SUPERVISOR, 1, NULL), 0);
    ck_assert_int_eq(net_state_of(&test, 1), PEER_AWAITED);

    int silent[STRANGERS];
    for (int i = 0; i < STRANGERS; ++i) {
        silent[i] = call();
        (void)supervisor_server_step(test.server, test.views);
    }
    int noise = call();
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
}

/* For which reasons the system takes no connection; 0: no descriptor is left. */
static const int refusals[] = {0, ENOBUFS, ENOMEM, ENFILE};

/* A connection that cannot be taken does not keep supervisor 0 busy, and is taken later. */
TABLE_TEST(no_connection_is_taken_for_a_while, refusals)
{
    struct rlimit before, low;
    int next = dup(STDERR_FILENO);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = (struct rlimit){(rlim_t)next + 1, before.rlim_max}; /* with the stranger's */
    (void)supervisor_server_step(test.server, test.views);    /* a heartbeat is due: not in between */
    int stranger = call();
    struct pollfd polled = {.fd = supervisor_server_fd(test.server), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, NET_LIMIT_MS), 1);
    refusal = refusals[_i];
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, refusal == 0 ? &low : &before), 0);
    (void)supervisor_server_step(test.server, test.views);
    int ready = poll(&polled, 1, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    refusal = 0;
    ck_assert_int_eq(ready, 0);
    net_open_client(&test, 1, 0);
    close(stranger);
}

/* The process at the address must know the secret too. */
TEST(an_impostor_is_no_supervisor_0)
{
    struct listener listener;
    struct error error;
    struct auth_challenge challenge;
    struct auth_answer answer;
    unsigned char junk[sizeof(struct auth_welcome)] = {0};
    ck_assert(listener_open(&listener, 0, 16, &error));
    struct handshake root = test.root;
    root.port = listener.port;

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
    ck_assert(listener_open(&listener, 0, 1, &error)); /* a port that was in use before */
    struct handshake root = {.port = listener.port, .host = "node7"};
    listener_close(&listener);
    root.addresses = (struct host_addresses){.count = 1, .items = {{.family = 4, .bytes = {127, 0, 0, 1}}}};
    struct signals signals = {.fd = -1};
    ck_assert_int_lt(supervisor_connect(&root, "another host", PEER_SUPERVISOR, 1, &signals, key, &error), 0);
    ck_assert_says(error.text, "node7", "127.0.0.1");
}

TEST(only_a_signal_that_asks_for_the_end_ends_connecting)
{
    unsigned char key[AUTH_BYTES];
    struct error error;
    ck_assert(signals_take_over(&test.signals, &error));
    kill(getpid(), SIGCHLD); /* blocked now: they wait, as while a supervisor connects */
    kill(getpid(), SIGUSR1);
    int fd = net_connect(&test, &test.root, PEER_SUPERVISOR, 1, NULL);
    ck_assert_int_ge(fd, 0);
    close(fd);

    struct listener silent;
    ck_assert(listener_open(&silent, 0, 1, &error));
    test.root.port = silent.port;
    kill(getpid(), SIGTERM);
    ck_assert_int_lt(supervisor_connect(&test.root, test.root.host_id, PEER_SUPERVISOR, 1, &test.signals, key, &error),
                     0);
    ck_assert_says(error.text, "asked to end");
    listener_close(&silent);
    while (signals_next(&test.signals) != 0) {
    }
    close(test.signals.fd);
    signals_give_back(&test.signals);
}

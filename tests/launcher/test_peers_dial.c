/*
 * test_peers_dial.c - the door of the star, over real sockets: who does not know the secret is turned away without
 * harm, on either side; who cannot be taken in now is later; and dialing ends where it must, with a line that says why.
 */
#include "tests/launcher/star_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STRANGERS = 100 };

/* The system's, but for an error that it is to have. */
static int refusal;

int
accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags)
{
    errno = refusal;
    return refusal != 0 ? -1 : (int)syscall(SYS_accept4, fd, address.__sockaddr__, length, flags);
}

START_TEST(strangers_are_turned_away_and_do_no_harm)
{
    static struct star_test test;
    struct hello wrong;
    struct rank_view view = {.stage = RANK_STAGE_TRAINING, .step = 5};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    star_test_open(&test, STAR_WORLD, 0);
    wrong = test.root;
    wrong.secret[31] ^= 1;
    ck_assert_int_lt(star_connect(&test, &wrong, PEER_SUPERVISOR, 1), 0);
    ck_assert_int_eq(star_state_of(&test, 1), PEER_AWAITED);

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

    star_open_leaf(&test, 1, 0);
    peers_leaf_step(&test.leaves[1], &view);
    STAR_STEP_UNTIL(&test, test.views[1].step == 5);
    /* A second one for the same rank knows the secret, and is still not taken for it. */
    int second = star_connect(&test, &test.root, PEER_SUPERVISOR, 1);
    ck_assert_int_eq(star_state_of(&test, 1), PEER_HERE);
    if (second >= 0)
        close(second);
    view.step = 6;
    view.ended = true;
    peers_leaf_step(&test.leaves[1], &view);
    STAR_STEP_UNTIL(&test, test.views[1].step == 6);
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
    star_test_open(&test, STAR_WORLD, 0);
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
    ck_assert_int_eq(poll(&polled, 1, STAR_LIMIT_MS), 1);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    (void)peers_step(test.peers, test.views);
    int ready = poll(&polled, 1, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(ready, 0);
    star_open_leaf(&test, 1, 0);
    peers_leaf_close(&test.leaves[1]);
    close(stranger);
    peers_close(test.peers);
}
END_TEST

static const int refusals[] = {ENOBUFS, ENOMEM, ENFILE};

/* Nor does any other reason for which the system takes no connection. */
START_TEST(no_connection_is_taken_for_a_while)
{
    static struct star_test test;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    star_test_open(&test, STAR_WORLD, 0);
    address.sin_port = htons(test.root.port);
    int stranger = socket(AF_INET, SOCK_STREAM, 0);
    (void)peers_step(test.peers, test.views); /* a heartbeat is due: not in between */
    ck_assert_int_eq(connect(stranger, (struct sockaddr *)&address, sizeof(address)), 0);
    struct pollfd polled = {.fd = peers_fd(test.peers), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, STAR_LIMIT_MS), 1);
    refusal = refusals[_i];
    (void)peers_step(test.peers, test.views);
    ck_assert_int_eq(poll(&polled, 1, 0), 0);
    refusal = 0;
    star_open_leaf(&test, 1, 0);
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

    struct star_dialing dialing = {.test = &test, .root = &root, .purpose = PEER_SUPERVISOR, .rank = 1};
    star_dial(&dialing);
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
    pthread_join(dialing.thread, NULL);
    ck_assert_int_lt(dialing.fd, 0);
    listener_close(&listener);
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
    star_test_open(&test, STAR_WORLD, 0);
    ck_assert(signals_take_over(&test.signals, &problem));
    kill(getpid(), SIGCHLD); /* blocked now: they wait, as while a supervisor dials */
    kill(getpid(), SIGUSR1);
    int fd = star_connect(&test, &test.root, PEER_SUPERVISOR, 1);
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
    Suite *suite = suite_create("peers_dial");
    TCase *tcase = tcase_create("dial");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, strangers_are_turned_away_and_do_no_harm);
    tcase_add_test(tcase, no_descriptor_is_left_for_a_while);
    tcase_add_loop_test(tcase, no_connection_is_taken_for_a_while, 0, (int)(sizeof(refusals) / sizeof(refusals[0])));
    tcase_add_test(tcase, an_impostor_is_no_supervisor_0);
    tcase_add_test(tcase, nobody_there_is_a_problem_that_names_the_addresses);
    tcase_add_test(tcase, only_a_signal_that_asks_for_the_end_ends_dialing);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

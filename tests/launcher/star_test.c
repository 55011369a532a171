/*
 * star_test.c - see star_test.h.
 */
#include "tests/launcher/star_test.h"

#include <string.h>

void
star_test_open_at(struct star_test *test, struct listener *listener, int world_size, unsigned limit_s)
{
    struct problem problem;
    memset(test, 0, sizeof(*test));
    test->signals.fd = -1;
    addresses_host_id(test->root.host_id);
    ck_assert(proof_random(test->root.secret, sizeof(test->root.secret)));
    test->root.port = listener->port;
    test->peers = peers_open(listener, world_size, test->root.secret, limit_s, &problem);
    ck_assert_ptr_nonnull(test->peers);
}

void
star_test_open(struct star_test *test, int world_size, unsigned limit_s)
{
    struct listener listener;
    struct problem problem;
    ck_assert(listener_open(&listener, 16, &problem));
    star_test_open_at(test, &listener, world_size, limit_s);
}

static void *
dial(void *data)
{
    struct star_dialing *dialing = data;
    dialing->fd = peers_dial(dialing->root, dialing->test->root.host_id, dialing->purpose, dialing->rank,
                             &dialing->test->signals, &dialing->problem);
    atomic_store(&dialing->over, true);
    return NULL;
}

void
star_dial(struct star_dialing *dialing)
{
    ck_assert_int_eq(pthread_create(&dialing->thread, NULL, dial, dialing), 0);
}

int
star_connect(struct star_test *test, const struct hello *root, enum peer_purpose purpose, int rank)
{
    struct star_dialing dialing = {.test = test, .root = root, .purpose = purpose, .rank = rank};
    star_dial(&dialing);
    STAR_STEP_UNTIL(test, atomic_load(&dialing.over));
    pthread_join(dialing.thread, NULL);
    return dialing.fd;
}

void
star_open_leaf(struct star_test *test, int rank, unsigned limit_s)
{
    int fd = star_connect(test, &test->root, PEER_SUPERVISOR, rank);
    ck_assert_int_ge(fd, 0);
    peers_leaf_open(&test->leaves[rank], &test->root, rank, fd, limit_s);
}

enum peer_state
star_state_of(const struct star_test *test, int rank)
{
    return peers_look_at(test->peers, rank)->state;
}

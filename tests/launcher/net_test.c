/* net_test.c - see net_test.h. */
#include "tests/launcher/net_test.h"

void
net_test_open_at(struct net_test *test, struct listener *listener, int world_size, unsigned limit_s)
{
    struct error error;
    memset(test, 0, sizeof(*test));
    test->signals.fd = -1;
    for (int rank = 0; rank < NET_MOST; ++rank)
        test->clients[rank].link.fd = -1;
    addresses_host_id(test->root.host_id);
    ck_assert(auth_random(test->root.secret, sizeof(test->root.secret)));
    test->root.port = listener->port;
    test->server = supervisor_server_open(listener, world_size, test->root.secret, limit_s, &error);
    ck_assert_ptr_nonnull(test->server);
}

void
net_test_open(struct net_test *test, int world_size, unsigned limit_s)
{
    struct listener listener;
    struct error error;
    ck_assert(listener_open(&listener, 0, 16, &error));
    net_test_open_at(test, &listener, world_size, limit_s);
}

void
net_test_close(struct net_test *test)
{
    for (int rank = 0; rank < NET_MOST; ++rank)
        peer_link_close(&test->clients[rank].link);
    if (test->server != NULL)
        supervisor_server_close(test->server);
    test->server = NULL;
}

static void *
connection(void *data)
{
    struct net_connecting *connecting = data;
    connecting->fd =
        supervisor_connect(connecting->root, connecting->test->root.host_id, connecting->purpose, connecting->rank,
                           &connecting->test->signals, connecting->key, &connecting->error);
    atomic_store(&connecting->over, true);
    return NULL;
}

void
net_connect_begin(struct net_connecting *connecting)
{
    ck_assert_int_eq(pthread_create(&connecting->thread, NULL, connection, connecting), 0);
}

int
net_connect(struct net_test *test, const struct handshake *root, enum peer_purpose purpose, int rank,
            unsigned char *key)
{
    struct net_connecting connecting = {.test = test, .root = root, .purpose = purpose, .rank = rank};
    net_connect_begin(&connecting);
    NET_STEP_UNTIL(test, atomic_load(&connecting.over));
    pthread_join(connecting.thread, NULL);
    if (key != NULL)
        memcpy(key, connecting.key, AUTH_BYTES);
    return connecting.fd;
}

void
net_open_client(struct net_test *test, int rank, unsigned limit_s)
{
    unsigned char key[AUTH_BYTES];
    int fd = net_connect(test, &test->root, PEER_SUPERVISOR, rank, key);
    ck_assert_int_ge(fd, 0);
    supervisor_client_open(&test->clients[rank], &test->root, rank, fd, key, limit_s);
}

enum peer_state
net_state_of(const struct net_test *test, int rank)
{
    return supervisor_server_peer(test->server, rank)->state;
}

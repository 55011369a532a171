/*
 * test_address.c - NCCL's variables of interfaces and addresses mean what NCCL documents, and ranks that know nothing
 * of each other but NCCL_COMM_ID meet there.
 */
#include "exchange_ranks.h"
#include "nccl/bootstrap_wire.h"
#include "nccl/collective.h"

#include "tests/lib/test.h"

/* ---- addresses ---- */

static bool
choose(const char *names, const char *family, struct net_address *address, char *text)
{
    if (names)
        setenv("NCCL_SOCKET_IFNAME", names, 1);
    else
        unsetenv("NCCL_SOCKET_IFNAME");
    if (family)
        setenv("NCCL_SOCKET_FAMILY", family, 1);
    else
        unsetenv("NCCL_SOCKET_FAMILY");
    bool good = net_address_choose(address, text, 512);
    unsetenv("NCCL_SOCKET_IFNAME");
    unsetenv("NCCL_SOCKET_FAMILY");
    return good;
}

TEST_GROUP(address, .timeout_s = 100);

TEST(interfaces_are_chosen_as_documented)
{
    struct net_address address;
    char text[512], where[ADDRESS_TEXT_BYTES];
    static const char *const meaning_loopback[] = {"lo", "=lo", "l", "nothing,lo", "lo,", "=nothing,lo"};
    for (size_t i = 0; i < sizeof(meaning_loopback) / sizeof(meaning_loopback[0]); ++i) {
        ck_assert_msg(choose(meaning_loopback[i], "AF_INET", &address, text), "%s: %s", meaning_loopback[i], text);
        ck_assert_str_eq(net_address_text(&address, where), "127.0.0.1:0");
        ck_assert(net_address_is_loopback(&address));
    }
    ck_assert(!choose("=l", NULL, &address, text));
    ck_assert(strstr(text, "NCCL_SOCKET_IFNAME==l"));
    ck_assert(!choose("nothing", "AF_INET", &address, text));
    ck_assert(strstr(text, "NCCL_SOCKET_FAMILY=AF_INET"));
    ck_assert(!choose("lo", "inet", &address, text));
    ck_assert(strstr(text, "give AF_INET or AF_INET6"));
    /* What is excluded is not taken, if there is anything else; nothing asked for is never an error. */
    if (choose("^lo", NULL, &address, text))
        ck_assert(!net_address_is_loopback(&address));
    if (choose("^=l", "AF_INET", &address, text))
        ck_assert_int_eq(address.family, 4);
    ck_assert(choose(NULL, NULL, &address, text));
    if (choose("lo", "AF_INET6", &address, text)) /* where there is IPv6 */
        ck_assert_str_eq(net_address_text(&address, where), "[::1]:0");
}

TEST(addresses_are_read_and_written)
{
    struct net_address address;
    char where[ADDRESS_TEXT_BYTES];
    static const char *const good[] = {"127.0.0.1:80", "10.1.2.3:65535", "[::1]:4711", "[fd00::1:2]:1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); ++i) {
        ck_assert_msg(net_address_parse(good[i], &address), "%s", good[i]);
        ck_assert_str_eq(net_address_text(&address, where), good[i]);
        ck_assert_int_eq(net_address_is_loopback(&address), i % 2 == 0);
    }
    static const char *const bad[] = {"",
                                      ":",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:0",
                                      "[::1]",
                                      ":80",
                                      "127.0.0.1:70000000000",
                                      "300.0.0.1:1",
                                      "127.0.0.1:-1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i)
        ck_assert_msg(!net_address_parse(bad[i], &address), "%s", bad[i]);
}

/* ---- NCCL_COMM_ID ---- */

static struct net_address
free_port(void)
{
    struct net_address address = {.family = 4, .bytes = {127, 0, 0, 1}};
    int listener = net_listen(&address, 1);
    EXPECT(listener >= 0);
    close(listener);
    return address;
}

/* Every rank makes the id by itself; rank 0 comes last. Twice, as a program with two communicators does. */
static int
by_address(int rank, int n, struct ranks_shared *shared)
{
    setenv("NCCL_HOSTID", rank == 1 ? "other" : "one", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_COMM_ID", shared->text[0], 1);
    for (int round = 0; round < 2; ++round) {
        ncclUniqueId id;
        struct bootstrap_error error;
        struct exchange exchange;
        struct bootstrap_wait wait = BOOTSTRAP_WAIT_INITIALIZER;
        EXPECT(bootstrap_get_id(&id, &error) == ncclSuccess);
        exchange_init(&exchange);
        if (rank == 0)
            ranks_await(&shared->flags[round], n - 1);
        atomic_fetch_add(&shared->flags[round], 1);
        ncclResult_t result = bootstrap_join(&exchange.segment, &id, rank, n, &wait, &error);
        if (result != ncclSuccess)
            fprintf(stderr, "rank %d: %s\n", rank, error.text);
        EXPECT(result == ncclSuccess);
        float mine = (float)(1 << rank);
        struct collective what = exchange_sum(&mine, 1);
        collective_run(&exchange, &what);
        EXPECT(mine == (float)((1 << n) - 1));
        exchange_leave(&exchange);
    }
    return 0;
}

LOOP_TEST(ranks_meet_at_an_address, 1, 5)
{
    struct ranks_shared *shared = ranks_shared_new();
    struct net_address address = free_port();
    net_address_text(&address, shared->text[0]);
    ck_assert(ranks_run_shared(_i, by_address, 0, shared));
    ranks_shared_free(shared);
}

TEST(an_address_needs_a_secret_or_loopback)
{
    ncclUniqueId id, other;
    struct bootstrap_error error;
    setenv("NCCL_COMM_ID", "192.0.2.1:4711", 1);
    unsetenv("SOFTGPU_NCCL_SECRET");
    ck_assert_int_eq(bootstrap_get_id(&id, &error), ncclInvalidUsage);
    ck_assert(strstr(error.text, "set SOFTGPU_NCCL_SECRET"));
    setenv("SOFTGPU_NCCL_SECRET", "a", 1);
    ck_assert_int_eq(bootstrap_get_id(&id, &error), ncclSuccess);
    ck_assert_int_eq(bootstrap_get_id(&other, &error), ncclSuccess);
    ck_assert_mem_eq(&id, &other, sizeof(id));
    setenv("SOFTGPU_NCCL_SECRET", "b", 1);
    ck_assert_int_eq(bootstrap_get_id(&other, &error), ncclSuccess);
    ck_assert_mem_ne(&id, &other, sizeof(id));
    setenv("NCCL_COMM_ID", "nowhere", 1);
    ck_assert_int_eq(bootstrap_get_id(&id, &error), ncclInvalidArgument);
    ck_assert(strstr(error.text, "NCCL_COMM_ID=nowhere"));
    unsetenv("NCCL_COMM_ID");
    unsetenv("SOFTGPU_NCCL_SECRET");
}

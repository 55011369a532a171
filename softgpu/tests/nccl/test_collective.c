/*
 * test_collective.c - the collectives between processes, without CUDA: right on every rank, the same bits everywhere,
 * for every kind, type and size.
 */
#include "exchange_ranks.h"
#include "library/half.h"
#include "nccl/collective.h"
#include "nccl/point_to_point.h"

#include "tests/lib/test.h"

enum { SIZES = 6 };

/* None, one, odd, one chunk of floats and a bit, several chunks with a rest. */
static const size_t sizes[SIZES] = {0, 1, 1023, SEGMENT_CHUNK_BYTES / 4 + 1, 3 * SEGMENT_CHUNK_BYTES / 4 - 7, 700001};

/* A value that depends on who sends it, where it stands and in which operation: small integers, exact in every type. */
static int
element(int rank, size_t i, unsigned operation)
{
    return (int)((i * 7 + (size_t)rank * 5 + operation * 3) % 11) - 3;
}

static void
store(void *array, size_t i, ncclDataType_t type, int value)
{
    switch (type) {
    case ncclFloat16:
        ((uint16_t *)array)[i] = half_from_float((float)value);
        break;
    case ncclBfloat16:
        ((uint16_t *)array)[i] = bfloat_from_float((float)value);
        break;
    case ncclFloat32:
        ((float *)array)[i] = (float)value;
        break;
    case ncclFloat64:
        ((double *)array)[i] = value;
        break;
    case ncclInt64:
    case ncclUint64:
        ((int64_t *)array)[i] = value;
        break;
    case ncclInt32:
    case ncclUint32:
        ((int32_t *)array)[i] = value;
        break;
    default:
        ((int8_t *)array)[i] = (int8_t)value;
        break;
    }
}

static bool
holds(const void *array, size_t i, ncclDataType_t type, int value)
{
    unsigned char expected[8];
    store(expected, 0, type, value);
    return memcmp((const unsigned char *)array + i * type_bytes(type), expected, type_bytes(type)) == 0;
}

static int
sum_at(int rank_count, size_t i, unsigned operation)
{
    int sum = 0;
    for (int r = 0; r < rank_count; ++r)
        sum += element(r, i, operation);
    return sum;
}

/* Runs one collective in a fresh buffer or in place, and checks every element of what this rank receives. */
static void
run_and_check(struct exchange *exchange, enum operation_kind kind, ncclDataType_t type, size_t count, bool in_place,
              unsigned operation)
{
    int rank = exchange->segment.rank, n = exchange->segment.rank_count, root = (int)operation % n;
    size_t bytes = type_bytes(type),
           blocks = kind == OPERATION_ALL_GATHER || kind == OPERATION_REDUCE_SCATTER ? (size_t)n : 1;
    size_t send_count = kind == OPERATION_REDUCE_SCATTER ? blocks * count : count;
    size_t receive_count = kind == OPERATION_ALL_GATHER ? blocks * count : count;
    unsigned char *send = malloc((send_count + receive_count + 1) * bytes), *receive = send + send_count * bytes;
    if (in_place && kind == OPERATION_ALL_GATHER) { /* the block of this rank, in the receive buffer */
        receive = send;
        send = receive + (size_t)rank * count * bytes;
    } else if (in_place) {
        receive = kind == OPERATION_REDUCE_SCATTER ? send + (size_t)rank * count * bytes : send;
    }
    for (size_t i = 0; i < send_count; ++i)
        store(send, i, type, element(rank, i, operation));

    struct collective what = {
        .kind = kind, .type = type, .op = ncclSum, .root = -1, .count = count, .send = send, .receive = receive};
    if (kind == OPERATION_BROADCAST || kind == OPERATION_REDUCE)
        what.root = root;
    collective_run(exchange, &what);
    EXPECT(exchange_error(exchange, NULL, 0) == ncclSuccess);

    for (size_t i = 0; i < receive_count; ++i) {
        switch (kind) {
        case OPERATION_ALL_REDUCE:
            EXPECT(holds(receive, i, type, sum_at(n, i, operation)));
            break;
        case OPERATION_REDUCE:
            EXPECT(rank != root || holds(receive, i, type, sum_at(n, i, operation)));
            break;
        case OPERATION_BROADCAST:
            EXPECT(holds(receive, i, type, element(root, i, operation)));
            break;
        case OPERATION_ALL_GATHER:
            EXPECT(holds(receive, i, type, element((int)(i / count), i % count, operation)));
            break;
        default:
            EXPECT(holds(receive, i, type, sum_at(n, (size_t)rank * count + i, operation)));
            break;
        }
    }
    free(in_place && kind == OPERATION_ALL_GATHER ? receive : send);
}

TEST_GROUP(right, .timeout_s = 100);

static struct exchange exchange;

RANKS_LOOP_TEST(collectives_are_right, 1, 5, 0)
{
    exchange_join(&exchange, rank, n, shared);
    unsigned operation = 0;
    for (int kind = 0; kind < OPERATION_KIND_COUNT; ++kind) {
        for (int type = 0; type < ncclNumTypes; ++type) {
            for (int s = 0; s < SIZES && type_bytes((ncclDataType_t)type) > 0; ++s, ++operation) {
                bool large = sizes[s] > SEGMENT_CHUNK_BYTES / 4 && type != ncclFloat32 && type != ncclInt8;
                if (!large) /* the path of chunks is the same for all types */
                    run_and_check(&exchange, (enum operation_kind)kind, (ncclDataType_t)type, sizes[s], operation % 2,
                                  operation);
            }
        }
    }
    exchange_leave(&exchange);
}

/* Any kind, type, size and place after any other. */
static int
random_operations(int rank, int rank_count, struct ranks_shared *shared)
{
    unsigned seed = (unsigned)shared->flags[0];
    exchange_join(&exchange, rank, rank_count, shared);
    for (unsigned operation = 0; operation < 150; ++operation) {
        enum operation_kind kind = (enum operation_kind)(rand_r(&seed) % OPERATION_KIND_COUNT);
        ncclDataType_t type = (ncclDataType_t)(rand_r(&seed) % ncclNumTypes);
        size_t count = (size_t)rand_r(&seed) % ((size_t)1 << rand_r(&seed) % 18);
        bool in_place = rand_r(&seed) % 2;
        if (type_bytes(type) > 0)
            run_and_check(&exchange, kind, type, count, in_place, operation);
    }
    exchange_leave(&exchange);
    return 0;
}

LOOP_TEST(random_operations_are_right, 2, 5)
{
    struct ranks_shared *shared = ranks_shared_new();
    const char *seed = getenv("TEST_SEED");
    shared->flags[0] = seed ? atoi(seed) : (int)getpid();
    ck_assert_msg(ranks_run_shared(_i, random_operations, 0, shared), "TEST_SEED=%d", shared->flags[0]);
    ranks_shared_free(shared);
}

/* Values whose sum depends on the order: every rank must find the sum in the order of the ranks, to the last bit. */
RANKS_LOOP_TEST(sums_are_formed_in_the_order_of_the_ranks, 2, 5, 0)
{
    enum { COUNT = 300007 };
    exchange_join(&exchange, rank, n, shared);
    float *values = malloc(COUNT * sizeof(*values)), *scattered = malloc(COUNT * sizeof(*scattered));
    float *expected = malloc(COUNT * sizeof(*expected));
    for (int r = 0; r < n; ++r) {
        unsigned seed = 77u + (unsigned)r;
        for (size_t i = 0; i < COUNT; ++i) {
            float value = ldexpf((float)(rand_r(&seed) % 65536 - 32768), rand_r(&seed) % 40 - 20);
            expected[i] = r == 0 ? value : expected[i] + value;
            if (r == rank)
                values[i] = value;
        }
    }
    size_t block = COUNT / (size_t)n;
    struct collective scatter = exchange_sum(values, block);
    scatter.kind = OPERATION_REDUCE_SCATTER;
    scatter.receive = scattered;
    collective_run(&exchange, &scatter);
    struct collective reduce = exchange_sum(values, COUNT);
    collective_run(&exchange, &reduce);
    EXPECT(memcmp(values, expected, COUNT * sizeof(*values)) == 0);
    EXPECT(memcmp(scattered, expected + (size_t)rank * block, block * sizeof(float)) == 0);
    free(values);
    free(scattered);
    free(expected);
    exchange_leave(&exchange);
}

RANKS_LOOP_TEST(premulsum_scales_each_rank_by_its_own, 1, 4, 0)
{
    enum { COUNT = 200001 };
    exchange_join(&exchange, rank, n, shared);
    static const enum operation_kind kinds[] = {OPERATION_ALL_REDUCE, OPERATION_REDUCE, OPERATION_REDUCE_SCATTER};
    for (size_t k = 0; k < 3; ++k) {
        size_t send_count = kinds[k] == OPERATION_REDUCE_SCATTER ? COUNT * (size_t)n : COUNT;
        float *values = malloc(send_count * sizeof(*values)), *result = malloc(COUNT * sizeof(*result));
        float scalar = (float)(rank + 1);
        for (size_t i = 0; i < send_count; ++i)
            values[i] = (float)element(rank, i, 0);
        struct collective what = exchange_sum(values, COUNT);
        what.kind = kinds[k];
        what.root = k == 1 ? 0 : -1;
        what.receive = result;
        what.scalar = &scalar;
        collective_run(&exchange, &what);
        EXPECT(exchange_error(&exchange, NULL, 0) == ncclSuccess);
        for (size_t i = 0; i < COUNT && (k != 1 || rank == 0); ++i) {
            size_t at = kinds[k] == OPERATION_REDUCE_SCATTER ? (size_t)rank * COUNT + i : i;
            int expected = 0;
            for (int r = 0; r < n; ++r)
                expected += (r + 1) * element(r, at, 0);
            EXPECT(result[i] == (float)expected);
            EXPECT(values[i] == (float)element(rank, i, 0)); /* only the wire is scaled */
        }
        free(values);
        free(result);
    }
    exchange_leave(&exchange);
}

/* Every rank sends a message to every rank, itself too, of sizes from nothing to many pieces. */
RANKS_LOOP_TEST(messages_arrive, 1, 5, 0)
{
    static const size_t bytes[] = {0, 1, SEGMENT_CHANNEL_BYTES, 5 * SEGMENT_CHANNEL_BYTES + 3};
    exchange_join(&exchange, rank, n, shared);
    for (size_t s = 0; s < 4; ++s) {
        struct transfer transfers[2 * RANKS_MAX];
        unsigned char *send[RANKS_MAX], *receive[RANKS_MAX];
        int count = 0;
        for (int peer = 0; peer < n; ++peer) {
            send[peer] = malloc(bytes[s] + 1);
            receive[peer] = malloc(bytes[s] + 1);
            memset(send[peer], rank * 16 + peer, bytes[s]);
            receive[peer][bytes[s]] = 0xee;
            transfers[count++] = (struct transfer){send[peer], bytes[s], peer, ncclUint8, true};
            transfers[count++] = (struct transfer){receive[peer], bytes[s], peer, ncclUint8, false};
        }
        transfers_run(&exchange, transfers, count, true);
        EXPECT(exchange_error(&exchange, NULL, 0) == ncclSuccess);
        for (int peer = 0; peer < n; ++peer) {
            for (size_t i = 0; i < bytes[s]; ++i)
                EXPECT(receive[peer][i] == peer * 16 + rank);
            EXPECT(receive[peer][bytes[s]] == 0xee);
            free(send[peer]);
            free(receive[peer]);
        }
        run_and_check(&exchange, OPERATION_ALL_REDUCE, ncclFloat32, 1000, false, (unsigned)s); /* both kinds mix */
    }
    exchange_leave(&exchange);
}

/* Two messages of different size to the same rank stay in order. */
RANKS_TEST(messages_between_two_ranks_stay_in_order, 2, 0)
{
    exchange_join(&exchange, rank, n, shared);
    static unsigned char first[200000], second[300];
    if (rank == 0) {
        memset(first, 1, sizeof(first));
        memset(second, 2, sizeof(second));
    }
    struct transfer transfers[] = {{first, sizeof(first), 1 - rank, ncclUint8, rank == 0},
                                   {second, sizeof(second), 1 - rank, ncclUint8, rank == 0}};
    if (rank == 0) { /* both at once */
        transfers_run(&exchange, transfers, 2, true);
    } else { /* one after the other */
        transfers_run(&exchange, &transfers[0], 1, true);
        transfers_run(&exchange, &transfers[1], 1, true);
    }
    EXPECT(exchange_error(&exchange, NULL, 0) == ncclSuccess);
    for (size_t i = 0; i < sizeof(first); ++i)
        EXPECT(first[i] == 1);
    for (size_t i = 0; i < sizeof(second); ++i)
        EXPECT(second[i] == 2);
    exchange_leave(&exchange);
}

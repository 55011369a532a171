/*
 * seeds.cu - a small trainer that takes a seed by --seed WAY, a clock or random bytes, and does with it what --use
 * says. seeds.txt has its rows.
 *
 * Correct: `nothing`, `start` (parameters, which DDP_PARAMETER makes rank 0's), `rank0`, `lowest`, `highest` (all ranks
 * agree on a shuffle), `log` (a file's name, a line, a mean), `wait`. Wrong: `shuffle`, and `epoch`: only those of
 * later epochs. Right, but not comparable: `items`, which adds noise to each item of the share.
 */
#include "tests/lib/elementwise.h"
#include "tests/tools/frame.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <sys/random.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum { COUNT = 16, ITEMS = 240, BATCH = 24, EPOCHS = 3 };

static __global__ void
mean_gradient(float *g, const float *w, const float *x, int count)
{
    int i = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < count; ++k) {
        float turns = x[k] * (float)(i + 1);
        sum += w[i] - (turns - floorf(turns)); /* which other items turn, and do not only lengthen */
    }
    g[i] = sum / (float)count;
}

ELEMENTWISE_OF_ALL(sgd, (float *w, const float *g, float rate), w[i] -= rate * g[i])

/* ---- seeds ---- */

static unsigned
read_stream()
{
    unsigned seed = 0;
    std::ifstream stream("/dev/urandom", std::ios::binary);
    stream.read((char *)&seed, sizeof(seed));
    return seed;
}

static unsigned
read_file()
{
    unsigned seed = 0;
    FILE *file = fopen("/dev/urandom", "rb");
    REQUIRE(file != NULL && fread(&seed, sizeof(seed), 1, file) == 1);
    fclose(file);
    return seed;
}

static unsigned
read_descriptor()
{
    unsigned seed = 0;
    int fd = open("/dev/random", O_RDONLY);
    REQUIRE(read(fd, &seed, sizeof(seed)) == (ssize_t)sizeof(seed));
    close(fd);
    return seed;
}

static unsigned
read_date(const char *way)
{
    struct timeval us;
    struct timespec ns;
    if (strcmp(way, "gettimeofday") == 0) {
        gettimeofday(&us, NULL);
        return (unsigned)us.tv_sec;
    }
    if (strcmp(way, "timespec_get") == 0)
        REQUIRE(timespec_get(&ns, TIME_UTC) == TIME_UTC);
    else
        clock_gettime(CLOCK_REALTIME, &ns);
    return (unsigned)(ns.tv_sec ^ ns.tv_nsec);
}

static unsigned
take_seed(const char *way)
{
    unsigned seed = 1;
    if (strspn(way, "0123456789") > 0) /* a number */
        return (unsigned)strtoul(way, NULL, 10);
    if (strcmp(way, "time") == 0)
        return (unsigned)time(NULL);
    if (strcmp(way, "system_clock") == 0)
        return (unsigned)std::chrono::system_clock::now().time_since_epoch().count();
    if (strcmp(way, "random_device") == 0)
        return std::random_device()();
    if (strcmp(way, "stream") == 0)
        return read_stream();
    if (strcmp(way, "file") == 0)
        return read_file();
    if (strcmp(way, "descriptor") == 0)
        return read_descriptor();
    if (strcmp(way, "getrandom") == 0)
        REQUIRE(getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed));
    else if (strcmp(way, "getentropy") == 0)
        REQUIRE(getentropy(&seed, sizeof(seed)) == 0);
    else if (strcmp(way, "constant") != 0)
        seed = read_date(way);
    return seed;
}

/* ---- right uses ---- */

/* All ranks have the same afterwards. */
static unsigned
agree(unsigned seed, const char *use)
{
    bool is_of_rank_0 = strcmp(use, "rank0") == 0;
    if (is_of_rank_0 && DDP_RANK() > 0)
        seed = 0;
    DDP_REDUCE(&seed, 1, DDP_UINT32,
               is_of_rank_0                 ? DDP_OP_SUM
               : strcmp(use, "lowest") == 0 ? DDP_OP_MIN
                                            : DDP_OP_MAX,
               0);
    return seed;
}

static void
write_log(unsigned seed, const char *folder)
{
    char name[4096];
    time_t now = time(NULL);
    float date = (float)(now % 100000);
    snprintf(name, sizeof(name), "%s/%ld-%u.log", folder, (long)now, seed);
    FILE *log = fopen(name, "w");
    REQUIRE(log != NULL);
    fprintf(log, "began at %s", ctime(&now));
    fclose(log);
    DDP_MEAN(&date);
}

/* Until dates that are a little ahead, in each way. The date is then what was waited for. */
static void
wait_for_dates()
{
    using std::chrono::milliseconds;
    using std::chrono::system_clock;
    const auto until = system_clock::now() + milliseconds(30);
    std::this_thread::sleep_until(until);
    REQUIRE(system_clock::now() >= until);

    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock<std::mutex> lock(mutex);
    const auto next = system_clock::now() + milliseconds(30);
    REQUIRE(!changed.wait_until(lock, next, [] { return false; }));
    REQUIRE(system_clock::now() >= next);
    REQUIRE(changed.wait_for(lock, milliseconds(5)) == std::cv_status::timeout);

    struct timespec date;
    clock_gettime(CLOCK_REALTIME, &date);
    date.tv_nsec += 30000000;
    date.tv_sec += date.tv_nsec / 1000000000;
    date.tv_nsec %= 1000000000;
    REQUIRE(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &date, NULL) == 0);

    const auto polled = system_clock::now() + milliseconds(30); /* reads the date until it is there */
    while (system_clock::now() < polled)
        ;
    const auto slept = system_clock::now() + milliseconds(30);
    while (system_clock::now() < slept)
        usleep(1000);
}

/* ---- the training ---- */

static void
train(unsigned start_seed, unsigned shuffle_seed, unsigned item_seed, const char *epoch_way)
{
    float *w = device_floats(COUNT), *g = device_floats(COUNT), *x = device_floats(BATCH), start[COUNT];
    for (int i = 0; i < COUNT; ++i)
        start[i] = (float)((unsigned)i * 37 % 64) / 64 + (float)(start_seed % 1000) / 1000;
    CHECK(cudaMemcpy(w, start, sizeof(start), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(g, COUNT, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(BATCH, &first, &count);
    std::vector<int> order(ITEMS);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 generator(shuffle_seed), noise(item_seed);
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        if (epoch > 0 && epoch_way != NULL)
            generator.seed(take_seed(epoch_way));
        std::shuffle(order.begin(), order.end(), generator);
        for (int batch = 0; batch < ITEMS; batch += BATCH) {
            float items[BATCH];
            for (size_t k = 0; k < count; ++k)
                items[k] = (float)(order[batch + first + k] * 7919 % 101) / 101 +
                           (item_seed > 0 ? (float)(noise() % 100) / 200 : 0);
            CHECK(cudaMemcpy(x, items, count * sizeof(float), cudaMemcpyHostToDevice));
            mean_gradient<<<1, COUNT>>>(g, w, x, (int)count);
            DDP_STEP(0);
            sgd<<<1, COUNT>>>(w, g, 0.05f);
        }
    }
    CHECK(cudaDeviceSynchronize());
}

int
main(int argc, char **argv)
{
    const char *way = "constant", *use = "nothing", *folder = ".";
    const std::vector<option_row> table = {{"--seed", &way}, {"--use", &use}, {"--folder", &folder}};
    options_take(argc, argv, table, "");
    CHECK(cudaFree(NULL));
    bool at_epoch = strcmp(use, "epoch") == 0;
    unsigned seed = at_epoch ? 1 : take_seed(way);
    bool agrees = strcmp(use, "rank0") == 0 || strcmp(use, "lowest") == 0 || strcmp(use, "highest") == 0;
    if (strcmp(use, "log") == 0)
        write_log(seed, folder);
    else if (strcmp(use, "wait") == 0)
        wait_for_dates();
    unsigned shuffle_seed = agrees ? agree(seed, use) : strcmp(use, "shuffle") == 0 ? seed : 1;
    train(strcmp(use, "start") == 0 ? seed : 1, shuffle_seed, strcmp(use, "items") == 0 ? seed : 0,
          at_epoch ? way : NULL);
    return 0;
}

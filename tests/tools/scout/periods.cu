/*
 * periods.cu HABIT [BUFFERS] - trainers whose steps are alike only at a second look, annotated as they have to be:
 *
 *   ring        a thread that launches nothing copies batches into BUFFERS buffers, ahead of the steps; with
 *               PERIODS_BY_RANK in the environment others on each rank
 *   tables      the same, and kernels get a buffer by a table of addresses
 *   locked      the thread copies with a lock held that a host function of the step takes
 *   first       the thread's copy is the first operation of the fifth step
 *   shows       the host reads two numbers after each fifth of 20 steps, or each BUFFERS-th, behind two fills
 *   sizes       each batch has another number of records: grids, and bytes of copies, differ from step to step
 *   last        each fifth batch has fewer records
 *   index       the data lies on the device, and a kernel takes a batch by its number
 *   copied      the same, and a copy takes it
 *   lengths     a step has another number of layers each time, and a loop in front of it repeats
 *   renewed     each step adds to the gradient of the one before, into memory of its own
 */
#include "tests/tools/scout/habit.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

/* ---- ring, tables ---- */

enum { BUFFERS_AT_MOST = 8, EPOCH = 5, FEW_STEPS = 20 };

/* Numbers that one thread hands to another. */
struct channel {
    std::mutex lock;
    std::condition_variable news;
    int numbers[BUFFERS_AT_MOST + 1], first = 0, count = 0;

    void put(int number)
    {
        std::lock_guard<std::mutex> locked(lock);
        numbers[(first + count++) % (BUFFERS_AT_MOST + 1)] = number;
        news.notify_one();
    }

    int take()
    {
        std::unique_lock<std::mutex> locked(lock);
        news.wait(locked, [this] { return count > 0; });
        int number = numbers[first];
        first = (first + 1) % (BUFFERS_AT_MOST + 1);
        --count;
        return number;
    }
};

static channel empty_buffers, full_buffers;
static float *ring_x[BUFFERS_AT_MOST], *ring_wanted[BUFFERS_AT_MOST];

static void
fill_buffer(int k, cudaStream_t stream)
{
    static float host_x[BATCH * INPUTS], host_wanted[BATCH * OUTPUTS];
    draw_batch(host_x, host_wanted);
    CHECK(cudaMemcpyAsync(ring_x[k], host_x, sizeof(host_x), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(ring_wanted[k], host_wanted, sizeof(host_wanted), cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
    full_buffers.put(k);
}

/* Fills one buffer, or several at once, until it takes -1. */
static void
load_ring(int buffers)
{
    const char *rank = getenv("RANK");
    for (int i = getenv("PERIODS_BY_RANK") != NULL && rank != NULL ? 17 * atoi(rank) : 0; i > 0; --i)
        (void)random_number();
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned state = 1;; state = state * 1664525u + 1013904223u) {
        int taken[BUFFERS_AT_MOST], wanted_now = 1 + (int)((state >> 16) % (unsigned)buffers);
        for (int i = 0; i < wanted_now; ++i)
            if ((taken[i] = empty_buffers.take()) < 0)
                return;
        for (int i = 0; i < wanted_now; ++i)
            fill_buffer(taken[i], stream);
    }
}

ELEMENTWISE(take_rows, (float *to, const float *const *table, int number, int count), count, to[i] = table[number][i])

HABITS("ring", "tables", train_ring, by_table)
{
    int buffers = given_number > 0 ? given_number : 4;
    REQUIRE(buffers <= BUFFERS_AT_MOST);
    create_net();
    float **table, *own_x = x, *own_wanted = wanted;
    for (int k = 0; k < buffers; ++k) {
        CHECK(cudaMalloc(&ring_x[k], BATCH * INPUTS * sizeof(float)));
        CHECK(cudaMalloc(&ring_wanted[k], BATCH * OUTPUTS * sizeof(float)));
        empty_buffers.put(k);
    }
    CHECK(cudaMalloc(&table, sizeof(ring_x)));
    CHECK(cudaMemcpy(table, ring_x, sizeof(ring_x), cudaMemcpyHostToDevice));
    std::thread loader(load_ring, buffers);
    for (int step = 0; step < STEPS; ++step) {
        int k = full_buffers.take();
        x = by_table ? own_x : ring_x[k];
        wanted = ring_wanted[k];
        if (by_table)
            RUN(take_rows, BATCH * INPUTS)(x, table, k, BATCH * INPUTS);
        train_on_batch();
        float loss;
        CHECK(cudaMemcpy(&loss, delta, sizeof(loss), cudaMemcpyDeviceToHost));
        empty_buffers.put(k);
    }
    wanted = own_wanted;
    empty_buffers.put(-1);
    loader.join();
}

/* ---- locked ---- */

enum { LOCKED_BUFFERS = 2 };

static std::mutex pool;
static std::condition_variable pool_news;
static std::atomic<int> pool_filled, pool_handed_back; /* the second before the host function has run */
static int pool_given_back;
static cudaEvent_t pool_loaded[LOCKED_BUFFERS];

static void CUDART_CB
give_back(void *)
{
    std::lock_guard<std::mutex> locked(pool);
    ++pool_given_back;
    pool_news.notify_all();
}

static void
load_locked(float *host_x, float *host_wanted)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int step = 0; step < STEPS; ++step) {
        int k = step % LOCKED_BUFFERS;
        std::unique_lock<std::mutex> locked(pool);
        pool_news.wait(locked, [step] { return step - pool_given_back < LOCKED_BUFFERS; });
        float *from_x = host_x + k * BATCH * INPUTS, *from_wanted = host_wanted + k * BATCH * OUTPUTS;
        draw_batch(from_x, from_wanted);
        while (step == 1 &&
               pool_handed_back == 0) /* a host function waits, and the first update is about to be launched */
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(3)); /* it decodes */
        CHECK(cudaMemcpyAsync(ring_x[k], from_x, BATCH * INPUTS * sizeof(float), cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(ring_wanted[k], from_wanted, BATCH * OUTPUTS * sizeof(float), cudaMemcpyHostToDevice,
                              stream));
        CHECK(cudaEventRecord(pool_loaded[k], stream));
        ++pool_filled;
    }
}

MODE("locked", train_locked)
{
    float *host_x, *host_wanted, *own_wanted;
    create_net();
    own_wanted = wanted;
    CHECK(cudaMallocHost(&host_x, LOCKED_BUFFERS * BATCH * INPUTS * sizeof(float)));
    CHECK(cudaMallocHost(&host_wanted, LOCKED_BUFFERS * BATCH * OUTPUTS * sizeof(float)));
    for (int k = 0; k < LOCKED_BUFFERS; ++k) {
        CHECK(cudaMalloc(&ring_x[k], BATCH * INPUTS * sizeof(float)));
        CHECK(cudaMalloc(&ring_wanted[k], BATCH * OUTPUTS * sizeof(float)));
        CHECK(cudaMemset(ring_x[k], 0,
                         BATCH * INPUTS * sizeof(float))); /* scout does not wait in front of the first update then */
        CHECK(cudaEventCreateWithFlags(&pool_loaded[k], cudaEventDisableTiming));
    }
    CHECK(cudaDeviceSynchronize());
    std::thread loader(load_locked, host_x, host_wanted);
    for (int step = 0; step < STEPS; ++step) {
        int k = step % LOCKED_BUFFERS;
        while (pool_filled <= step) /* without the lock, which the loader holds again at once */
            std::this_thread::yield();
        CHECK(cudaStreamWaitEvent(0, pool_loaded[k], 0));
        x = ring_x[k];
        wanted = ring_wanted[k];
        forward_rows(BATCH);
        compute_deltas(BATCH);
        compute_gradients(BATCH, false);
        CHECK(cudaLaunchHostFunc(0, give_back, NULL));
        ++pool_handed_back;
        DDP_STEP(0);
        descend_all();
    }
    loader.join();
    wanted = own_wanted;
}

/* ---- first ---- */

enum { FIRST_BUFFERS = 2, FIRST_OF = 4, TO_COPY_MS = 100 };

static std::atomic<int> buffers_taken; /* by the loader */

static void
load_each(void)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int k; (k = empty_buffers.take()) >= 0;) {
        ++buffers_taken;
        fill_buffer(k, stream);
    }
}

MODE("first", train_first)
{
    float *own_wanted;
    int kept = -1; /* a buffer that the loader gets where that step begins */
    create_net();
    own_wanted = wanted;
    for (int k = 0; k < FIRST_BUFFERS; ++k) {
        CHECK(cudaMalloc(&ring_x[k], BATCH * INPUTS * sizeof(float)));
        CHECK(cudaMalloc(&ring_wanted[k], BATCH * OUTPUTS * sizeof(float)));
        empty_buffers.put(k);
    }
    std::thread loader(load_each);
    for (int step = 0; step < STEPS; ++step) {
        int k = full_buffers.take(), taken = buffers_taken;
        x = ring_x[k];
        wanted = ring_wanted[k];
        if (kept >= 0) {
            empty_buffers.put(kept);
            while (buffers_taken == taken)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(TO_COPY_MS));
        }
        train_on_batch();
        CHECK(cudaDeviceSynchronize());
        kept = step + 1 == FIRST_OF ? k : -1;
        if (kept < 0)
            empty_buffers.put(k);
    }
    wanted = own_wanted;
    empty_buffers.put(-1);
    loader.join();
}

/* ---- shows ---- */

MODE("shows", train_shows)
{
    int every = given_number > 0 ? given_number : EPOCH;
    float shown[2];
    create_net();
    for (int i = 1; i <= 2 && every != EPOCH; ++i)
        CHECK(cudaMemset(y, 0, i * sizeof(float)));
    for (int step = 0; step < FEW_STEPS; ++step) {
        load();
        train_on_batch();
        for (int i = 0; i < 2 && step % every == every - 1; ++i)
            CHECK(cudaMemcpy(&shown[i], delta + i, sizeof(shown[i]), cudaMemcpyDeviceToHost));
    }
}

/* ---- sizes, last ---- */

HABITS("sizes", "last", train_sizes, in_epochs)
{
    create_net();
    for (int step = 0; step < 2 * STEPS; ++step) {
        int rows = !in_epochs ? 3 + (int)(random_number() * (BATCH - 3)) : step % EPOCH == EPOCH - 1 ? 5 : BATCH;
        load_rows(rows);
        train_on_rows(rows);
    }
}

/* ---- index, copied ---- */

HABITS("index", "copied", train_resident, by_copy)
{
    create_net();
    upload_resident();
    for (int step = 0; step < STEPS; ++step) {
        int number = step % RESIDENT;
        if (by_copy) {
            CHECK(cudaMemcpy(x, all_x + number * BATCH * INPUTS, BATCH * INPUTS * sizeof(float),
                             cudaMemcpyDeviceToDevice));
            CHECK(cudaMemcpy(wanted, all_wanted + number * BATCH * OUTPUTS, BATCH * OUTPUTS * sizeof(float),
                             cudaMemcpyDeviceToDevice));
        } else {
            take_resident(number);
        }
        train_on_batch();
    }
}

/* ---- lengths ---- */

MODE("lengths", train_lengths)
{
    create_net();
    for (int step = 0; step < STEPS; ++step) {
        load();
        for (int i = 8 + (int)(random_number() * 12); i > 0; --i)
            RUN(square_delta, BATCH * OUTPUTS)(y, wanted, wanted, BATCH * OUTPUTS);
        train_on_batch();
    }
}

/* ---- renewed ---- */

ELEMENTWISE(add_both, (float *sum, const float *a, const float *b, int count), count, sum[i] = a[i] + b[i])

MODE("renewed", train_renewed)
{
    const int count = tensor_count[0];
    create_net();
    float *kept = floats(count, 0);
    for (int step = 0; step < STEPS; ++step) {
        float *part, *sum;
        load();
        forward();
        compute_deltas(BATCH);
        CHECK(cudaMalloc(&part, count * sizeof(float)));
        compute_gradient(part, 0, BATCH, false);
        CHECK(cudaMalloc(&sum, count * sizeof(float)));
        RUN(add_both, count)(sum, kept, part, count);
        CHECK(cudaFree(kept));
        CHECK(cudaFree(part));
        kept = sum;
        RUN(descend, count)(w[0], kept, rate, count);
        CHECK(cudaMemset(kept, 0, count * sizeof(float)));
    }
}

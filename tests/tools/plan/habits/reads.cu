/*
 * reads.cu HABIT - what the host of public programs reads, decides and allocates. See net.h, and the table at the end.
 */
#include "net.h"

static void
train_by(void (*begin)(int step), void (*end)(int step))
{
    for (int step = 0; turn(step, steps); ++step) {
        if (begin != NULL)
            begin(step);
        load(step);
        forward(BATCH);
        backward(BATCH);
        update();
        end(step);
    }
}

/* ---- softmax and loss on the host ---- */

static float host_y[BATCH][CLASSES];

/* Of a row's logits in place; its loss. */
static float
host_softmax(float *row, int label)
{
    float most = row[0], sum = 0;
    for (int k = 1; k < CLASSES; ++k)
        most = fmaxf(most, row[k]);
    for (int k = 0; k < CLASSES; ++k)
        sum += expf(row[k] - most);
    for (int k = 0; k < CLASSES; ++k)
        row[k] = expf(row[k] - most) / sum;
    return -logf(row[label]);
}

/* Of the batch: host_y becomes the probabilities. */
static float
read_loss_of_rows(int step)
{
    float sum = 0;
    CHECK(cudaMemcpy(host_y, y, sizeof(host_y), cudaMemcpyDeviceToHost));
    for (int row = 0; row < BATCH; ++row)
        sum += host_softmax(host_y[row], host_labels[step % BATCHES * BATCH + row]) / BATCH;
    return sum;
}

static void
train_host_softmax(void)
{
    create_net(true);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        hidden(BATCH);
        RUN(dense, BATCH * CLASSES)(y, h, w[2], w[3], BATCH, HIDDEN, CLASSES, false);
        print_loss(step, read_loss_of_rows(step));
        for (int row = 0; row < BATCH; ++row)
            for (int k = 0; k < CLASSES; ++k)
                host_y[row][k] = (host_y[row][k] - (k == host_labels[step % BATCHES * BATCH + row])) / BATCH;
        CHECK(cudaMemcpy(delta, host_y, sizeof(host_y), cudaMemcpyHostToDevice));
        backward(BATCH);
        update();
    }
}

static void
print_host_loss(int step)
{
    print_loss(step, read_loss_of_rows(step));
}

static void
train_host_loss(void)
{
    create_net(true);
    train_by(NULL, print_host_loss);
}

/* ---- sums and histories on the device ---- */

static float *loss_sum;
static int *hit_sum;

__global__ void
add_up(float *loss_sum, int *hit_sum, const float *losses, const float *y, const int *labels, int rows)
{
    for (int row = 0; row < rows; ++row) {
        int best = 0;
        for (int k = 1; k < CLASSES; ++k)
            best = y[row * CLASSES + k] > y[row * CLASSES + best] ? k : best;
        *loss_sum += losses[row];
        *hit_sum += best == labels[row];
    }
}

/* An epoch's loss and hits are added up on the device, and read at its end. */
static void
add_and_print(int step)
{
    float sum;
    int hits;
    add_up<<<1, 1>>>(loss_sum, hit_sum, losses, y, labels, BATCH);
    if (step % BATCHES != BATCHES - 1)
        return;
    CHECK(cudaMemcpy(&sum, loss_sum, sizeof(sum), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&hits, hit_sum, sizeof(hits), cudaMemcpyDeviceToHost));
    printf("epoch %d loss %.6f hits %d of %d\n", step / BATCHES, sum / SAMPLES, hits, SAMPLES);
    CHECK(cudaMemset(loss_sum, 0, sizeof(sum)));
    CHECK(cudaMemset(hit_sum, 0, sizeof(hits)));
}

static void
train_sums(void)
{
    create_net(true);
    loss_sum = floats(1, 0);
    hit_sum = (int *)allocate(sizeof(int));
    CHECK(cudaMemset(hit_sum, 0, sizeof(int)));
    train_by(NULL, add_and_print);
}

static float *history;

__global__ void
note(float *history, const float *loss, int step)
{
    history[step] = *loss;
}

static void
note_loss(int step)
{
    note<<<1, 1>>>(history, loss, step);
}

static void
train_history(void)
{
    create_net(true);
    history = floats(steps, 0);
    train_by(NULL, note_loss);
    std::vector<float> host((size_t)steps);
    CHECK(cudaMemcpy(host.data(), history, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int step = 0; step < steps; ++step)
        print_loss(step, host[(size_t)step]);
}

/* The loss of the step before. */
static void
print_last_loss(int step)
{
    if (step > 0)
        print_loss(step - 1, read_loss());
}

static void
nothing(int step)
{
    (void)step;
}

static void
train_late_loss(void)
{
    create_net(true);
    train_by(print_last_loss, nothing);
    print_last_loss(steps);
}

/* The rate falls where four losses in a row are no better than the best. */
static void
print_and_slow_down(int step)
{
    static float best = 1e9f;
    static int bad;
    float value = read_loss();
    printf("step %d loss %.6f rate %g\n", step, value, rate);
    bad = value < best ? 0 : bad + 1;
    best = fminf(best, value);
    if (bad < 4)
        return;
    rate *= 0.9f;
    bad = 0;
}

static void
train_plateau(void)
{
    create_net(true);
    train_by(NULL, print_and_slow_down);
}

/* ---- between steps ---- */

static void
print_step(int step)
{
    print_loss(step, read_loss());
}

/* Behind every 16th step, in the same function as training. */
static void
train_validation(void)
{
    create_net(true);
    for (int step = 0; turn(step, steps); ++step) {
        load(step);
        forward(BATCH);
        backward(BATCH);
        print_loss(step, read_loss());
        update();
        if (step % 16 != 14)
            continue;
        border();
        validate();
    }
}

/* Each 25th step the weights go to the host; how large they are is printed. */
static void
save_checkpoint(int step)
{
    print_step(step);
    if (step % 25 != 24)
        return;
    border();
    std::vector<float> host((size_t)tensor_count[0]);
    double sum = 0;
    CHECK(cudaMemcpy(host.data(), w[0], host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (float value : host)
        sum += fabs(value);
    printf("checkpoint %d weights %.6f\n", step, sum);
}

static void
train_checkpoint(void)
{
    create_net(true);
    train_by(NULL, save_checkpoint);
}

/* ---- memory ---- */

/* Allocates once in each step, and never frees. */
static void
leak_and_load(int step)
{
    (void)step;
    y = floats(BATCH * CLASSES, 0);
}

static void
train_leak(void)
{
    create_net(true);
    train_by(leak_and_load, print_step);
}

static void *
allocate_of_arena(size_t bytes)
{
    static char *arena;
    static size_t used;
    if (arena == NULL)
        CHECK(cudaMalloc(&arena, 1 << 20));
    used += (bytes + 255) / 256 * 256;
    REQUIRE(used <= 1 << 20);
    return arena + used - (bytes + 255) / 256 * 256;
}

static void
train_arena(void)
{
    allocate = allocate_of_arena;
    create_net(true);
    train_by(NULL, print_step);
}

static void *
allocate_managed(size_t bytes)
{
    void *memory;
    CHECK(cudaMallocManaged(&memory, bytes));
    return memory;
}

/* The host writes batches and reads the loss without a copy. */
static void
train_managed(void)
{
    allocate = allocate_managed;
    create_net(true);
    for (int step = 0; turn(step, steps); ++step) {
        memcpy(x, host_x[step % BATCHES * BATCH], BATCH * sizeof(host_x[0]));
        memcpy(labels, host_labels + step % BATCHES * BATCH, BATCH * sizeof(int));
        forward(BATCH);
        backward(BATCH);
        update();
        CHECK(cudaDeviceSynchronize());
        print_loss(step, *loss);
    }
}

int
main(int argc, char **argv)
{
    const struct habit habits[] = {{"host-softmax", train_host_softmax},
                                   {"host-loss", train_host_loss},
                                   {"sums", train_sums},
                                   {"history", train_history},
                                   {"late-loss", train_late_loss},
                                   {"plateau", train_plateau},
                                   {"validation", train_validation},
                                   {"checkpoint", train_checkpoint},
                                   {"leak", train_leak},
                                   {"arena", train_arena},
                                   {"managed", train_managed}};
    return run_habit(habits, argc, argv);
}

/*
 * unseen.cu WAY - a linear classifier that is trained without annotations, in ways of public programs that no other
 * trainer here has. Without a word it prints all ways.
 *
 *     unseen WAY [--run NAME] [options of program.h]
 *
 * NAME: of the folder or file that a run makes. The oracle is by gradients, but for ways that update in one kernel.
 */
#include "tests/tools/plan/linear.h"

#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { EPOCH = 8, MANY = 1 << 15 };

static const char *const ways[] = {
    "plain",
    /* it ends if its run is there already */
    "makes-folder", /* mkdir */
    "makes-file",   /* O_EXCL */
    "looks",        /* access, before the file is written */
    "lists",        /* the folder's entries have to be none */
    "rotates",      /* the last run's file is renamed, and must have been there */
    "removes",      /* so is what it removes */
    /* the rate is a variable of the module, and one kernel updates */
    "constant", "constant-copied", /* to it, before the first step */
    "device-variable",
    /* copies that depend on data */
    "one-hot",     /* a kernel zeroes the labels, and a copy for each row sets one: its place depends */
    "few-hot",     /* and no row of the first class has a copy: their number depends */
    "finds-label", /* the host reads a row's labels until it finds the one: their number depends */
    "finds-late",  /* the same after the update, which is one kernel */
    /* the losses of a batch's rows in managed memory, which the host sums up without a copy */
    "losses",             /* kernels add to them, and zero them after they are read */
    "losses-overwritten", /* a kernel overwrites them */
    "losses-filled",      /* a fill zeroes them before each batch */
    "losses-large",       /* too many of them */
    "losses-history",     /* a kernel writes the next one in each batch, and one kernel updates */
    "losses-feed",        /* the labels of a batch are computed from those of the batch before */
    "losses-cleared",     /* the host zeroes them before each batch */
    "losses-pinned",      /* they lie in memory of the host, else as in the first of these */
    /* their sum */
    "loss",        /* in managed memory: a kernel adds to it, and another one zeroes it after it is read */
    "loss-pinned", /* in memory of the host */
    /* eight batches are an epoch, which begins with a new seed */
    "clock-seeds",   /* from the clock */
    "clock-once",    /* from one that the clock has given at the start */
    "entropy-seeds", /* from the system's random bytes */
    /* the host reads, and sends with the next batch */
    "turns-weights",  /* the weights, transposed */
    "turns-gradient", /* and the gradient of the batch before is in them */
};

static const char *run_name = "run";
static float *y, *losses, *turned;
static float host_w[INPUTS][CLASSES], host_y[ROWS][CLASSES];

__constant__ float constant_rate = 0.1f;
__constant__ float copied_rate;
__device__ float device_rate = 0.1f;

__global__ void
forward_kernel(const float *w, const float *x, const float *y, float *delta)
{
    int row = (int)threadIdx.x / CLASSES, c = (int)threadIdx.x % CLASSES;
    delta[row * CLASSES + c] = score_of(w, x, row, c) - y[row * CLASSES + c];
}

/* Every second row, by weights of one class after the other. */
__global__ void
forward_turned(const float *w, const float *x, const float *y, float *delta)
{
    int row = (int)threadIdx.x / CLASSES, c = (int)threadIdx.x % CLASSES;
    float sum = 0;
    if (row % 2 == 0)
        return;
    for (int i = 0; i < INPUTS; ++i)
        sum += w[c * INPUTS + i] * x[row * INPUTS + i];
    delta[row * CLASSES + c] = sum - y[row * CLASSES + c];
}

__global__ void
update_kernel(float *w, const float *gradient)
{
    w[threadIdx.x] -= 0.1f * gradient[threadIdx.x];
}

__global__ void
constant_update(float *w, const float *delta, const float *x)
{
    w[threadIdx.x] -= constant_rate * gradient_of(delta, x);
}

__global__ void
copied_update(float *w, const float *delta, const float *x)
{
    w[threadIdx.x] -= copied_rate * gradient_of(delta, x);
}

__global__ void
device_update(float *w, const float *delta, const float *x)
{
    w[threadIdx.x] -= device_rate * gradient_of(delta, x);
}

/* `times`: more of them than rows, all alike. */
__global__ void
loss_kernel(const float *delta, float *losses, int times, int adds)
{
    int row = (int)threadIdx.x;
    float sum = 0;
    for (int c = 0; c < CLASSES; ++c)
        sum += delta[row * CLASSES + c] * delta[row * CLASSES + c];
    for (int i = 0; i < times; ++i)
        losses[i * ROWS + row] = adds ? losses[i * ROWS + row] + sum : sum;
}

__global__ void
last_kernel(const float *delta, float *loss)
{
    float sum = 0;
    for (int i = 0; i < LABELS; ++i)
        sum += delta[i] * delta[i];
    *loss = sum;
}

__global__ void
zero_kernel(float *y)
{
    y[threadIdx.x] = 0;
}

static bool
updates_at_once(void)
{
    return is("constant") || is("constant-copied") || is("device-variable") || is("finds-late") || is("losses-history");
}

/* ---- files ---- */

static void
give_up(const std::string &name, const char *why)
{
    printf("%s %s\n", name.c_str(), why);
    exit(0);
}

static void
write_file(const std::string &name)
{
    FILE *file = fopen(name.c_str(), "w");
    REQUIRE(file != NULL);
    CHECK(fclose(file));
}

static int
count_entries(const std::string &folder)
{
    DIR *list = opendir(folder.c_str());
    int count = 0;
    REQUIRE(list != NULL);
    while (readdir(list) != NULL)
        ++count;
    CHECK(closedir(list));
    return count;
}

static void
begin_run(void)
{
    const std::string name = run_name, old = name + ".old";
    if (is("makes-folder") && mkdir(run_name, 0777) != 0)
        give_up(name, "is there");
    if (is("makes-file") && open(run_name, O_CREAT | O_EXCL | O_WRONLY, 0666) < 0)
        give_up(name, "is there");
    if (is("looks") && access(run_name, F_OK) == 0)
        give_up(name, "is there");
    if (is("looks"))
        write_file(name);
    if (is("lists") && count_entries(name) != 2)
        give_up(name, "is not empty");
    if (is("lists"))
        write_file(name + "/log");
    if (is("rotates") && (access(old.c_str(), F_OK) == 0 || rename(run_name, old.c_str()) != 0))
        give_up(name, "was not there");
    if (is("removes") && unlink(run_name) != 0)
        give_up(name, "was not there");
}

/* ---- training ---- */

static unsigned
read_clock(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now));
    return (unsigned)now.tv_nsec + (unsigned)now.tv_sec;
}

static void
begin_epoch(int number)
{
    if (is("clock-seeds") || (is("clock-once") && number == 0))
        random_sequence = read_clock();
    if (is("entropy-seeds"))
        CHECK(getentropy(&random_sequence, sizeof(random_sequence)));
    printf("epoch %d seed %u\n", number, random_sequence);
}

static void
set_labels(void)
{
    zero_kernel<<<1, LABELS>>>(y);
    for (int i = 0; i < LABELS; ++i)
        if (host_y[0][i] == 1 && !(is("few-hot") && i % CLASSES == 0))
            CHECK(cudaMemcpy(y + i, host_y[0] + i, sizeof(float), cudaMemcpyHostToDevice));
}

/* Whether a row's largest prediction is at its label. */
static bool
is_hit(int row)
{
    float now[CLASSES], label = 0;
    int best = 0, c = 0;
    CHECK(cudaMemcpy(now, delta + row * CLASSES, sizeof(now), cudaMemcpyDeviceToHost));
    for (int i = 0; i < CLASSES; ++i) {
        now[i] += host_y[row][i];
        best = now[i] > now[best] ? i : best;
    }
    for (c = -1; label == 0;)
        CHECK(cudaMemcpy(&label, y + row * CLASSES + ++c, sizeof(label), cudaMemcpyDeviceToHost));
    return best == c;
}

static void
load(void)
{
    memset(host_y, 0, sizeof(host_y));
    for (int row = 0; row < ROWS; ++row)
        host_y[row][draw_row(row)] = is("losses-feed") ? 1 - 0.1f * losses[row] : 1.0f;
    CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    if (is("one-hot") || is("few-hot"))
        set_labels();
    else
        CHECK(cudaMemcpy(y, host_y, sizeof(host_y), cudaMemcpyHostToDevice));
}

/* What the host has read goes back for the forward pass. */
static void
send_turned(void)
{
    static float sent[CLASSES][INPUTS];
    for (int i = 0; i < WEIGHTS; ++i)
        sent[i % CLASSES][i / CLASSES] = host_w[i / CLASSES][i % CLASSES];
    CHECK(cudaMemcpy(turned, sent, sizeof(sent), cudaMemcpyHostToDevice));
}

static void
read_weights(void)
{
    static float last[INPUTS][CLASSES];
    CHECK(cudaMemcpy(host_w, weights, sizeof(host_w), cudaMemcpyDeviceToHost));
    if (!is("turns-gradient"))
        return;
    CHECK(cudaMemcpy(last, gradient, sizeof(last), cudaMemcpyDeviceToHost));
    for (int i = 0; i < WEIGHTS; ++i)
        host_w[i / CLASSES][i % CLASSES] -= 0.1f * last[i / CLASSES][i % CLASSES];
}

static bool
is_pinned(void)
{
    return is("losses-pinned") || is("loss-pinned");
}

static bool
has_one_loss(void)
{
    return is("loss") || is("loss-pinned");
}

static int
loss_count(void)
{
    if (is("losses-large"))
        return MANY;
    return has_one_loss() ? 1 : ROWS;
}

static int
count_hits(void)
{
    int count = 0;
    for (int row = 0; row < ROWS; ++row)
        count += is_hit(row);
    return count;
}

/* The sum of a batch's losses, which the host reads where they are. */
static float
sum_losses(void)
{
    float sum = 0;
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < loss_count(); ++i)
        sum += losses[i];
    if (is("losses") || is("loss") || is_pinned())
        zero_kernel<<<1, (unsigned)loss_count()>>>(losses);
    return sum;
}

static void
add_losses(int step)
{
    if (is("losses-history"))
        last_kernel<<<1, 1>>>(delta, losses + step % EPOCH);
    else if (has_one_loss())
        sum_kernel<<<1, 1>>>(delta, losses);
    else
        loss_kernel<<<1, ROWS>>>(delta, losses, loss_count() / ROWS,
                                 is("losses") || is("losses-filled") || is("losses-cleared") || is_pinned());
}

static void
make_losses(void)
{
    const size_t bytes = (size_t)loss_count() * sizeof(float);
    CHECK(is_pinned() ? cudaMallocHost(&losses, bytes) : cudaMallocManaged(&losses, bytes));
    CHECK(cudaMemset(losses, 0, bytes));
}

static void
update(void)
{
    if (is("constant") || is("finds-late") || is("losses-history")) {
        constant_update<<<1, WEIGHTS>>>(weights, delta, x);
        return;
    }
    if (is("constant-copied")) {
        copied_update<<<1, WEIGHTS>>>(weights, delta, x);
        return;
    }
    if (is("device-variable")) {
        device_update<<<1, WEIGHTS>>>(weights, delta, x);
        return;
    }
    backward_kernel<<<1, WEIGHTS>>>(delta, x, gradient);
    if (update_due())
        update_kernel<<<1, WEIGHTS>>>(weights, gradient);
}

static void
use_oracle(int ranks)
{
    oracle.ranks = ranks;
    oracle.by_gradients = ranks > 0 && !updates_at_once();
}

static void
train(void)
{
    int hits = 0, ranks = oracle.ranks;
    float sum = 0;
    const bool sums = begins("loss"), begins_late = is("losses") || is("loss");
    use_oracle(begins_late ? 0 : ranks); /* what repeats begins with the kernel after the first batch */
    for (int step = 0; turn(step, steps); ++step) {
        if ((begins("clock") || begins("entropy")) && step % EPOCH == 0)
            begin_epoch(step / EPOCH);
        load();
        forward_kernel<<<1, LABELS>>>(weights, x, y, delta);
        if (begins("turns")) {
            send_turned();
            forward_turned<<<1, LABELS>>>(turned, x, y, delta);
        }
        hits += is("finds-label") ? count_hits() : 0;
        if (is("losses-filled"))
            CHECK(cudaMemset(losses, 0, ROWS * sizeof(float)));
        if (is("losses-cleared"))
            memset(losses, 0, ROWS * sizeof(float));
        if (sums)
            add_losses(step);
        update();
        hits += is("finds-late") ? count_hits() : 0;
        if (begins("turns"))
            read_weights();
        sum += sums ? sum_losses() : 0;
        if (sums && step % 4 == 3)
            printf("step %d loss %.5f\n", step, sum);
        use_oracle(ranks);
    }
    if (begins("finds"))
        printf("%d hits\n", hits);
}

int
main(int argc, char **argv)
{
    const float rate = 0.1f;
    program_take(argc, argv, ways, {{"--run", &run_name}});
    begin_run();
    if (is("constant-copied"))
        CHECK(cudaMemcpyToSymbol(copied_rate, &rate, sizeof(rate)));
    create_classifier();
    y = device_floats(LABELS);
    turned = begins("turns") ? device_floats(WEIGHTS) : NULL;
    if (begins("loss"))
        make_losses();
    train();
    save(path);
    return 0;
}

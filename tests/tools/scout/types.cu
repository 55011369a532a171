/*
 * types.cu TYPE ROWS HABIT [SEED] - linear regression with ROWS results: weights of 8 times as many elements, and as
 * many biases, all of them TYPE (float, double, half, bfloat16), which the names of kernels say, unless HABIT says
 * otherwise:
 *
 *   small      all kernels are templates, and most updates are too small for 16 bits
 *   plain      all kernels are templates     scaled: and gradients are 1024 times as large     words: `sgd` gets `void
 * *`, all others have names of C (float) c          all kernels have names of C (float): only the bits are left c-half
 * forward and backward have: `sgd` says the types (float) blas       all kernels have, the update is cublasSaxpy
 * (float) two        another kernel reads the weights as double (float) shape      the numbers of rows and columns are
 * a table in device memory, always the same (float) shuffled   the order of the items is a table, another one in each
 * step (float) tables, sealed   the same, and leaves its memory where another table, or an argument, does not fit
 * (float) answer, legacy   gradients are scaled by the norm that cuBLAS gives the host (float)
 */
#include "tests/lib/elementwise.h"
#include "tests/lib/trainer.h"

#include <cstring>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>

#undef cublasSnrm2
extern "C" int cublasInit(void); /* of cublas.h, as the next one */
extern "C" float cublasSnrm2(int n, const float *x, int increment);

enum { COLUMNS = 8, ITEMS = 16, STEPS = 24 };

#define C_ELEMENTWISE(...) extern "C" ELEMENTWISE(__VA_ARGS__)

template <class T>
__device__ void
gradients(const T *x, const T *y, const T *w, const T *b, T *gw, T *gb, int rows, const int *order)
{
    int r = (int)threadIdx.x;
    if (r >= rows)
        return;
    float sum = 0, sums[COLUMNS] = {0};
    for (int k = 0; k < ITEMS; ++k) {
        int i = order != NULL ? order[k] : k;
        float e = (float)b[r] - (float)y[i * rows + r];
        for (int c = 0; c < COLUMNS; ++c)
            e += (float)w[r * COLUMNS + c] * (float)x[i * COLUMNS + c];
        for (int c = 0; c < COLUMNS; ++c)
            sums[c] += e * (float)x[i * COLUMNS + c] / ITEMS * (1 + 0.1f * k);
        sum += e / ITEMS;
    }
    for (int c = 0; c < COLUMNS; ++c)
        gw[r * COLUMNS + c] = (T)sums[c];
    gb[r] = (T)sum;
}

template <class T>
__global__ void
forward_backward(const T *x, const T *y, const T *w, const T *b, T *gw, T *gb, int rows, float scale)
{
    gradients(x, y, w, b, gw, gb, rows, NULL);
    int r = (int)threadIdx.x;
    for (int c = 0; r < rows && c < COLUMNS; ++c)
        gw[r * COLUMNS + c] = (T)((float)gw[r * COLUMNS + c] * scale);
    if (r < rows)
        gb[r] = (T)((float)gb[r] * scale);
}

template <class T>
__global__ void
sgd(T *p, const T *g, int n, float rate)
{
    int i = ELEMENT_OF_THREAD;
    if (i < n)
        p[i] = (T)((float)p[i] - rate * (float)g[i]);
}

extern "C" __global__ void
forward_backward_c(const float *x, const float *y, const float *w, const float *b, float *gw, float *gb, int rows)
{
    gradients(x, y, w, b, gw, gb, rows, NULL);
}

C_ELEMENTWISE(sgd_c, (float *p, const float *g, int n), n, p[i] -= 0.05f * g[i])

ELEMENTWISE(sgd_words, (void *p, const void *g, int n), n, ((float *)p)[i] -= 0.05f * ((const float *)g)[i])

__global__ void
watch(const double *bits, double *copy, int n)
{
    for (int i = 0; i < n; ++i)
        copy[i] = bits[i];
}

__global__ void
by_shape(const float *x, const float *y, const float *w, const float *b, float *gw, float *gb, const int *shape)
{
    int r = (int)threadIdx.x, rows = shape[0], columns = shape[1], items = shape[2]; /* exchanged: out of memory */
    if (r >= rows)
        return;
    gb[r] = 0;
    for (int c = 0; c < columns; ++c)
        gw[r * columns + c] = 0;
    for (int i = 0; i < ITEMS && i < items; ++i) {
        float e = b[r] - y[i * rows + r];
        for (int c = 0; c < columns; ++c)
            e += w[(size_t)r * columns + c] * x[i * columns + c];
        for (int c = 0; c < columns; ++c)
            gw[r * columns + c] += e * x[i * columns + c] / ITEMS;
        gb[r] += e / ITEMS;
    }
}

__global__ void
by_order(const float *x, const float *y, const float *w, const float *b, float *gw, float *gb, int rows,
         const int *order)
{
    gradients(x, y, w, b, gw, gb, rows, order);
}

/* Two tables that belong together, and a number that belongs to them; 0: to any. */
__global__ void
by_tables(const float *x, const float *y, const float *w, const float *b, float *gw, float *gb, int rows,
          const int *order, const int *sum, int seal)
{
    int all = 0;
    for (int i = 0; i < ITEMS; ++i)
        all += (i + 1) * order[i];
    if (all != *sum || (seal != 0 && all != seal))
        *(volatile int *)8 = 1;
    gradients(x, y, w, b, gw, gb, rows, order);
}

template <class T> struct memory {
    T *data;
    std::vector<T> host;
    explicit memory(size_t count) : host(count)
    {
        CHECK(cudaMalloc(&data, count * sizeof(T)));
    }
    void fill(float from)
    {
        for (T &value : host)
            value = (T)((float)rand() / (float)RAND_MAX + from);
        copy();
    }
    void copy()
    {
        CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
};

template <class T>
static int
train(int rows, const char *habit)
{
    const float scale = strcmp(habit, "scaled") == 0 ? 1024 : 1, rate = strcmp(habit, "small") == 0 ? 4e-5f : 0.05f;
    memory<T> x(ITEMS * COLUMNS), y(ITEMS * rows), w(rows * COLUMNS), b(rows), gw(rows * COLUMNS), gb(rows);
    w.fill(-0.5f), b.fill(-0.5f);
    for (int step = 0; step < STEPS; ++step) {
        x.fill(0), y.fill(0.5f);
        forward_backward<<<1, 32>>>(x.data, y.data, w.data, b.data, gw.data, gb.data, rows, scale);
        sgd<<<rows, COLUMNS>>>(w.data, gw.data, rows * COLUMNS, rate / scale);
        sgd<<<1, 32>>>(b.data, gb.data, rows, rate / scale);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}

/* What stands between the gradients and their use. */
static void
use(const char *habit, cublasHandle_t blas, memory<float> *w, const memory<float> *gw, double *copy)
{
    int n = (int)gw->host.size();
    float norm = 1, scale;
    if (strcmp(habit, "two") == 0)
        watch<<<1, 1>>>((const double *)w->data, copy, n / 2);
    if (strcmp(habit, "answer") == 0)
        CHECK(cublasSnrm2_v2(blas, n, gw->data, 1, &norm));
    if (strcmp(habit, "legacy") == 0)
        norm = cublasSnrm2(n, gw->data, 1);
    scale = 0.5f / norm;
    if (strcmp(habit, "answer") == 0 || strcmp(habit, "legacy") == 0)
        CHECK(cublasSscal_v2(blas, n, &scale, gw->data, 1));
}

static void
update(const char *habit, cublasHandle_t blas, memory<float> *p, const memory<float> *g)
{
    const float rate = -0.05f;
    int n = (int)p->host.size();
    if (strcmp(habit, "blas") == 0)
        (void)cublasSaxpy_v2(blas, n, &rate, g->data, 1, p->data, 1);
    else if (strcmp(habit, "words") == 0)
        sgd_words<<<(n + 31) / 32, 32>>>(p->data, g->data, n);
    else if (strcmp(habit, "c") == 0)
        sgd_c<<<(n + 31) / 32, 32>>>(p->data, g->data, n);
    else
        sgd<<<(n + 31) / 32, 32>>>(p->data, g->data, n, 0.05f);
}

static int
train_habit(int rows, const char *habit)
{
    memory<float> x(ITEMS * COLUMNS), y(ITEMS * rows), w(rows * COLUMNS), b(rows), gw(rows * COLUMNS), gb(rows);
    memory<int> order(ITEMS), shape(3), sum(1);
    bool has_tables = strcmp(habit, "tables") == 0 || strcmp(habit, "sealed") == 0;
    memory<double> copy(rows * COLUMNS / 2);
    cublasHandle_t blas;
    CHECK(cublasCreate_v2(&blas));
    CHECK(cublasInit());
    w.fill(-0.5f), b.fill(-0.5f);
    shape.host = {rows, COLUMNS, 1 << 28};
    shape.copy();
    for (int step = 0; step < STEPS; ++step) {
        x.fill(0), y.fill(0.5f);
        for (int i = 0; i < ITEMS; ++i)
            order.host[i] = (i * (2 * (rand() % 8) + 1) + rand() % ITEMS) % ITEMS;
        sum.host[0] = 0;
        for (int i = 0; i < ITEMS; ++i)
            sum.host[0] += (i + 1) * order.host[i];
        if (strcmp(habit, "shuffled") == 0 || has_tables)
            order.copy(), sum.copy();
        if (has_tables) {
            by_tables<<<1, 32>>>(x.data, y.data, w.data, b.data, gw.data, gb.data, rows, order.data, sum.data,
                                 strcmp(habit, "sealed") == 0 ? sum.host[0] : 0);
        } else if (strcmp(habit, "shuffled") == 0) {
            by_order<<<1, 32>>>(x.data, y.data, w.data, b.data, gw.data, gb.data, rows, order.data);
        } else if (strcmp(habit, "shape") == 0) {
            by_shape<<<1, 32>>>(x.data, y.data, w.data, b.data, gw.data, gb.data, shape.data);
        } else {
            forward_backward_c<<<1, 32>>>(x.data, y.data, w.data, b.data, gw.data, gb.data, rows);
        }
        use(habit, blas, &w, &gw, copy.data);
        update(habit, blas, &w, &gw);
        update(habit, blas, &b, &gb);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *type = argv[1], *habit = argv[3];
    int rows = atoi(argv[2]);
    srand(argc > 4 ? (unsigned)atoi(argv[4]) : 1);
    if (strcmp(habit, "plain") != 0 && strcmp(habit, "scaled") != 0 && strcmp(habit, "small") != 0)
        return train_habit(rows, habit);
    return strcmp(type, "double") == 0     ? train<double>(rows, habit)
           : strcmp(type, "half") == 0     ? train<__half>(rows, habit)
           : strcmp(type, "bfloat16") == 0 ? train<__nv_bfloat16>(rows, habit)
                                           : train<float>(rows, habit);
}

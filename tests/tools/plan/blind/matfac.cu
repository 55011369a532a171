// Matrix factorization of ratings: user and item factors with biases, SGD over batches of triples, in place by atomics.
// Truth: state (P, Q, bu, bi around each batch).
// Batches: 48 (3 passes over 16 batches of 64 triples).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

const int USERS = 40, ITEMS = 30, RANK = 6, BATCH = 64, NTRIPLES = 1024, NHOLD = 128, PASSES = 3;

struct Rating {
    int user, item;
    float value;
};

#define cudaCheckErrors(msg)                                                                                        \
    do {                                                                                                            \
        cudaError_t __err = cudaGetLastError();                                                                     \
        if (__err != cudaSuccess) {                                                                                 \
            fprintf(stderr, "Fatal error: %s (%s at %s:%d)\n", msg, cudaGetErrorString(__err), __FILE__, __LINE__); \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

struct Model {
    float *P, *Q, *bu, *bi;
    float mu;
}; // passed to kernels by value

// error of each triple; gathers the factors so that the scatter does not read what it changes
__global__ void
gather_error(Model m, const Rating *r, float *err, float *pu, float *qi)
{
    __shared__ float part[BATCH / 8][8];
    int t = blockIdx.x * blockDim.y + threadIdx.y, k = threadIdx.x;
    Rating a = r[t];
    float prod = 0.f;
    if (k < RANK) {
        float p = m.P[a.user * RANK + k], q = m.Q[a.item * RANK + k];
        pu[t * RANK + k] = p;
        qi[t * RANK + k] = q;
        prod = p * q;
    }
    part[threadIdx.y][k] = prod;
    __syncthreads();
    if (k == 0) {
        float s = m.mu + m.bu[a.user] + m.bi[a.item];
        for (int j = 0; j < RANK; j++)
            s += part[threadIdx.y][j];
        err[t] = a.value - s;
    }
}

__global__ void
scatter_update(Model m, const Rating *r, const float *err, const float *pu, const float *qi, float eta, float reg)
{
    int t = blockIdx.x * blockDim.y + threadIdx.y, k = threadIdx.x;
    Rating a = r[t];
    float e = err[t];
    if (k < RANK) {
        float p = pu[t * RANK + k], q = qi[t * RANK + k];
        atomicAdd(m.P + a.user * RANK + k, eta * (e * q - reg * p));
        atomicAdd(m.Q + a.item * RANK + k, eta * (e * p - reg * q));
    } else if (k == RANK)
        atomicAdd(m.bu + a.user, eta * e);
    else if (k == RANK + 1)
        atomicAdd(m.bi + a.item, eta * e);
}

__global__ void
predict(Model m, const Rating *r, float *sq, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n)
        return;
    Rating a = r[t];
    float s = m.mu + m.bu[a.user] + m.bi[a.item];
    for (int j = 0; j < RANK; j++)
        s += m.P[a.user * RANK + j] * m.Q[a.item * RANK + j];
    s = fminf(5.f, fmaxf(1.f, s));
    sq[t] = (a.value - s) * (a.value - s);
}

static float
frand(float a, float b)
{
    return a + (b - a) * (rand() / (float)RAND_MAX);
}

int
main()
{
    srand(31337);
    std::vector<float> up(USERS * 3), ip(ITEMS * 3), ub(USERS), ib(ITEMS);
    for (auto &v : up)
        v = frand(-1, 1);
    for (auto &v : ip)
        v = frand(-1, 1);
    for (auto &v : ub)
        v = frand(-.8f, .8f);
    for (auto &v : ib)
        v = frand(-.8f, .8f);
    std::vector<Rating> ratings(NTRIPLES + NHOLD);
    double mean = 0;
    for (auto &r : ratings) {
        r.user = rand() % USERS;
        r.item = rand() % ITEMS;
        float s = 3.f + ub[r.user] + ib[r.item];
        for (int k = 0; k < 3; k++)
            s += up[r.user * 3 + k] * ip[r.item * 3 + k];
        s = roundf(s + frand(-.3f, .3f));
        r.value = s < 1 ? 1 : s > 5 ? 5 : s;
        mean += r.value / ratings.size();
    }

    Model m;
    m.mu = (float)mean;
    cudaMalloc(&m.P, USERS * RANK * sizeof(float));
    cudaMalloc(&m.Q, ITEMS * RANK * sizeof(float));
    cudaMalloc(&m.bu, USERS * sizeof(float));
    cudaMalloc(&m.bi, ITEMS * sizeof(float));
    Rating *d_r;
    float *d_err, *d_pu, *d_qi, *d_sq;
    cudaMalloc(&d_r, ratings.size() * sizeof(Rating));
    cudaMalloc(&d_err, BATCH * sizeof(float));
    cudaMalloc(&d_pu, BATCH * RANK * sizeof(float));
    cudaMalloc(&d_qi, BATCH * RANK * sizeof(float));
    cudaMalloc(&d_sq, NHOLD * sizeof(float));
    cudaCheckErrors("malloc");
    std::vector<float> init(USERS * RANK);
    for (auto &v : init)
        v = frand(-.3f, .3f);
    cudaMemcpy(m.P, init.data(), USERS * RANK * sizeof(float), cudaMemcpyHostToDevice);
    for (auto &v : init)
        v = frand(-.3f, .3f);
    cudaMemcpy(m.Q, init.data(), ITEMS * RANK * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(m.bu, 0, USERS * sizeof(float));
    cudaMemset(m.bi, 0, ITEMS * sizeof(float));
    cudaMemcpy(d_r, ratings.data(), ratings.size() * sizeof(Rating), cudaMemcpyHostToDevice);
    cudaCheckErrors("init");

    truth_by_state ts;
    truth_list state = {{m.P, USERS * RANK}, {m.Q, ITEMS * RANK}, {m.bu, USERS}, {m.bi, ITEMS}};
    std::vector<float> err(BATCH);
    dim3 blk(8, 8);
    int n = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        double sum = 0;
        for (int o = 0; o < NTRIPLES; o += BATCH, n++) {
            ts.begin(state);
            gather_error<<<BATCH / 8, blk>>>(m, d_r + o, d_err, d_pu, d_qi);
            scatter_update<<<BATCH / 8, blk>>>(m, d_r + o, d_err, d_pu, d_qi, 0.08f, 0.02f);
            ts.end();
            cudaMemcpy(err.data(), d_err, BATCH * sizeof(float), cudaMemcpyDeviceToHost);
            double s = 0;
            for (float e : err)
                s += e * e;
            sum += s;
            if (n % 8 == 7)
                printf("batch %2d mse %.5f\n", n + 1, s / BATCH);
        }
        cudaCheckErrors("pass");
        printf("pass %d rmse %.5f\n", pass + 1, sqrt(sum / NTRIPLES));
    }
    ts.close();
    predict<<<(NHOLD + 63) / 64, 64>>>(m, d_r + NTRIPLES, d_sq, NHOLD);
    std::vector<float> sq(NHOLD);
    cudaMemcpy(sq.data(), d_sq, NHOLD * sizeof(float), cudaMemcpyDeviceToHost);
    double t = 0;
    for (float v : sq)
        t += v;
    printf("held-out rmse %.5f\n", sqrt(t / NHOLD));
    truth_dump(state);
    cudaDeviceReset();
    return 0;
}

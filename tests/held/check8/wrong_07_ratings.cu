/* Matrix factorisation with biases on made-up film ratings. Plain C style; gradients by one thread an element. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ddprun.h"

#define N_USERS 48
#define N_FILMS 80
#define RANK_K 8
#define N_RATINGS 1600
#define BATCH_SIZE 160
#define STEPS 60

#define TRY(expr)                                                              \
    do {                                                                       \
        cudaError_t rc = (expr);                                               \
        if (rc) {                                                              \
            fprintf(stderr, "%s -> %s\n", #expr, cudaGetErrorString(rc));      \
            abort();                                                           \
        }                                                                      \
    } while (0)

struct rating {
    int user;
    int film;
    float stars;
};

struct factors {
    float *user, *film, *user_bias, *film_bias;
};

static uint64_t rng_word = 0x1234567ULL;

static double rng_double(void)
{
    rng_word = rng_word * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(rng_word >> 40) / (double)(1 << 24);
}

static float rng_gauss(void)
{
    double u = rng_double() + 1e-9, v = rng_double();
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307 * v));
}

__global__ void residuals(struct factors f, const struct rating *batch, float *err, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    struct rating r = batch[i];
    float p = 3.0f + f.user_bias[r.user] + f.film_bias[r.film];
    for (int k = 0; k < RANK_K; ++k)
        p += f.user[r.user * RANK_K + k] * f.film[r.film * RANK_K + k];
    err[i] = p - r.stars;
}

__global__ void user_side(struct factors f, struct factors g, const struct rating *batch, const float *err, int n,
                          float lambda)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= N_USERS * RANK_K)
        return;
    int u = e / RANK_K, k = e % RANK_K;
    float s = 0.0f, b = 0.0f;
    for (int i = 0; i < n; ++i)
        if (batch[i].user == u) {
            s += err[i] * f.film[batch[i].film * RANK_K + k];
            b += err[i];
        }
    g.user[e] = s / n + lambda * f.user[e];
    if (k == 0)
        g.user_bias[u] = b / n + lambda * f.user_bias[u];
}

__global__ void film_side(struct factors f, struct factors g, const struct rating *batch, const float *err, int n,
                          float lambda)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= N_FILMS * RANK_K)
        return;
    int m = e / RANK_K, k = e % RANK_K;
    float s = 0.0f, b = 0.0f;
    for (int i = 0; i < n; ++i)
        if (batch[i].film == m) {
            s += err[i] * f.user[batch[i].user * RANK_K + k];
            b += err[i];
        }
    g.film[e] = s / n + lambda * f.film[e];
    if (k == 0)
        g.film_bias[m] = b / n + lambda * f.film_bias[m];
}

__global__ void heavy_ball(float *w, const float *g, float *v, int n, float rate, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    v[i] = mu * v[i] - rate * g[i];
    w[i] += v[i];
}

static float *table(size_t n, float scale)
{
    float *d, *h = (float *)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; ++i)
        h[i] = scale * rng_gauss();
    TRY(cudaMalloc((void **)&d, n * sizeof(float)));
    TRY(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
    return d;
}

static struct rating *make_ratings(void)
{
    static float u[N_USERS][3], m[N_FILMS][3], ub[N_USERS], mb[N_FILMS];
    struct rating *r = (struct rating *)malloc(N_RATINGS * sizeof *r), *d;
    for (int i = 0; i < N_USERS; ++i) {
        ub[i] = 0.4f * rng_gauss();
        for (int k = 0; k < 3; ++k)
            u[i][k] = rng_gauss();
    }
    for (int j = 0; j < N_FILMS; ++j) {
        mb[j] = 0.6f * rng_gauss();
        for (int k = 0; k < 3; ++k)
            m[j][k] = 0.6f * rng_gauss();
    }
    for (int i = 0; i < N_RATINGS; ++i) {
        r[i].user = (int)(rng_double() * N_USERS);
        r[i].film = (int)(rng_double() * N_FILMS);
        float s = 3.0f + ub[r[i].user] + mb[r[i].film] + 0.1f * rng_gauss();
        for (int k = 0; k < 3; ++k)
            s += u[r[i].user][k] * m[r[i].film][k];
        r[i].stars = s;
    }
    TRY(cudaMalloc((void **)&d, N_RATINGS * sizeof *d));
    TRY(cudaMemcpy(d, r, N_RATINGS * sizeof *r, cudaMemcpyHostToDevice));
    free(r);
    return d;
}

int main(int argc, char **argv)
{
    struct rating *ratings = make_ratings();
    const size_t user_n = N_USERS * RANK_K, film_n = N_FILMS * RANK_K;
    struct factors w, g, v;
    w.user = table(user_n, 0.2f), w.film = table(film_n, 0.2f);
    w.user_bias = table(N_USERS, 0.0f), w.film_bias = table(N_FILMS, 0.0f);
    g.user = table(user_n, 0.0f), g.film = table(film_n, 0.0f);
    g.user_bias = table(N_USERS, 0.0f), g.film_bias = table(N_FILMS, 0.0f);
    v.user = table(user_n, 0.0f), v.film = table(film_n, 0.0f);
    v.user_bias = table(N_USERS, 0.0f), v.film_bias = table(N_FILMS, 0.0f);

    DDP_PARAMETER(w.user, user_n, DDP_FLOAT32);
    DDP_PARAMETER(w.film, film_n, DDP_FLOAT32);
    DDP_PARAMETER(w.user_bias, N_USERS, DDP_FLOAT32);
    DDP_PARAMETER(w.film_bias, N_FILMS, DDP_FLOAT32);
    DDP_GRADIENT(g.user, user_n, DDP_FLOAT32);
    DDP_GRADIENT(g.film, user_n, DDP_FLOAT32);
    DDP_GRADIENT(g.user_bias, N_USERS, DDP_FLOAT32);
    DDP_GRADIENT(g.film_bias, N_FILMS, DDP_FLOAT32);

    float *err;
    TRY(cudaMalloc((void **)&err, BATCH_SIZE * sizeof(float)));
    const float rate = 2.0f, mu = 0.85f, lambda = 2e-4f;

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH_SIZE, &first, &count);
        const struct rating *mine = ratings + step * BATCH_SIZE % N_RATINGS + first;
        int n = (int)count;

        residuals<<<(n + 31) / 32, 32>>>(w, mine, err, n);
        user_side<<<(N_USERS * RANK_K + 63) / 64, 64>>>(w, g, mine, err, n, lambda);
        film_side<<<(N_FILMS * RANK_K + 63) / 64, 64>>>(w, g, mine, err, n, lambda);
        DDP_STEP(0);
        heavy_ball<<<(N_USERS * RANK_K + 63) / 64, 64>>>(w.user, g.user, v.user, N_USERS * RANK_K, rate, mu);
        heavy_ball<<<(N_FILMS * RANK_K + 63) / 64, 64>>>(w.film, g.film, v.film, N_FILMS * RANK_K, rate, mu);
        heavy_ball<<<1, N_USERS>>>(w.user_bias, g.user_bias, v.user_bias, N_USERS, rate, mu);
        heavy_ball<<<1, N_FILMS>>>(w.film_bias, g.film_bias, v.film_bias, N_FILMS, rate, mu);

        if (step % 10 == 9 || step == 0) {
            static float h[BATCH_SIZE];
            float mse = 0.0f;
            TRY(cudaMemcpy(h, err, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i)
                mse += h[i] * h[i] / n;
            DDP_MEAN_AS("mse", &mse);
            if (DDP_RANK() == 0)
                printf("step %2d  mse %.4f\n", step + 1, mse);
        }
    }

    if (argc > 1 && DDP_RANK() == 0) {
        float *part[4] = {w.user, w.film, w.user_bias, w.film_bias};
        size_t len[4] = {user_n, film_n, N_USERS, N_FILMS};
        FILE *out = fopen(argv[1], "wb");
        for (int k = 0; k < 4; ++k) {
            float *h = (float *)malloc(len[k] * sizeof(float));
            TRY(cudaMemcpy(h, part[k], len[k] * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(h, sizeof(float), len[k], out);
            free(h);
        }
        fclose(out);
    }
    return 0;
}

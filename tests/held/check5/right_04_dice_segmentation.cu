// Segmentation of signals with the Dice loss of the whole batch: 1 - 2 I / (P + T), Adam.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

const int L = 40, R = 3, TAPS = 2 * R + 1, C = 5, NP = C * TAPS + C + C + 1, N = 320, B = 32, STEPS = 100;
// parameters: C filters of TAPS, C biases, C mixing weights, one bias

struct Adam {
    float *w, *g, *m, *v;
};

__device__ float response(const float *x, const float *w, int pos, int c)
{
    float a = w[C * TAPS + c];
    for (int t = 0; t < TAPS; ++t) {
        int p = pos + t - R;
        a += p >= 0 && p < L ? x[p] * w[c * TAPS + t] : 0.f;
    }
    return a;
}

__global__ void forward(const float *x, const float *w, float *prob)
{
    int item = blockIdx.x, pos = threadIdx.x;
    float s = w[NP - 1];
    for (int c = 0; c < C; ++c)
        s += tanhf(response(x + item * L, w, pos, c)) * w[C * TAPS + C + c];
    prob[item * L + pos] = 1 / (1 + expf(-s));
}

// sums[0] = I, sums[1] = P, sums[2] = T
__global__ void overlap(const float *prob, const float *target, double *sums, int n)
{
    double i_ = 0, p_ = 0, t_ = 0;
    for (int i = 0; i < n; ++i) {
        i_ += prob[i] * target[i];
        p_ += prob[i];
        t_ += target[i];
    }
    sums[0] = i_;
    sums[1] = p_;
    sums[2] = t_;
}

__global__ void dice_backward(float *prob, const float *target, const double *sums, float ranks, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double u = sums[1] + sums[2];
    float dp = (float)(-(2 * target[i] * u - 2 * sums[0]) / (u * u));
    prob[i] = ranks * dp * prob[i] * (1 - prob[i]);
}

__global__ void gradient(const float *x, const float *w, const float *ds, float *g, int count)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= NP)
        return;
    double sum = 0;
    for (int item = 0; item < count; ++item)
        for (int pos = 0; pos < L; ++pos) {
            float d = ds[item * L + pos];
            if (j == NP - 1) {
                sum += d;
                continue;
            }
            int c = j < C * TAPS ? j / TAPS : (j - C * TAPS) % C;
            float h = tanhf(response(x + item * L, w, pos, c));
            if (j >= C * TAPS + C) {
                sum += d * h;
                continue;
            }
            float da = d * w[C * TAPS + C + c] * (1 - h * h);
            if (j >= C * TAPS)
                sum += da;
            else {
                int p = pos + j % TAPS - R;
                sum += p >= 0 && p < L ? da * x[item * L + p] : 0.f;
            }
        }
    g[j] = (float)sum;
}

__global__ void adam(Adam a, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NP)
        return;
    a.m[i] = .9f * a.m[i] + .1f * a.g[i];
    a.v[i] = .99f * a.v[i] + .01f * a.g[i] * a.g[i];
    a.w[i] -= .02f * (a.m[i] / (1 - powf(.9f, step))) / (sqrtf(a.v[i] / (1 - powf(.99f, step))) + 1e-4f);
}

static unsigned seed = 5;
static float uniform() { return ((seed = seed * 1664525u + 1013904223u) >> 8) / 16777216.f; }

int main()
{
    std::vector<float> x(N * L), t(N * L), w(NP);
    for (int n = 0; n < N; ++n) {
        int begin = 4 + uniform() * 16, length = 3 + uniform() * 14;
        for (int i = 0; i < L; ++i) {
            t[n * L + i] = i >= begin && i < begin + length;
            x[n * L + i] = t[n * L + i] + 1.5f * (uniform() - .5f);
        }
    }
    for (float &v : w)
        v = .6f * (uniform() - .5f);
    float *dx, *dt, *prob;
    double *sums;
    Adam a;
    for (float **p : {&a.w, &a.g, &a.m, &a.v}) {
        cudaMalloc(p, NP * 4);
        cudaMemset(*p, 0, NP * 4);
    }
    cudaMalloc(&dx, N * L * 4);
    cudaMalloc(&dt, N * L * 4);
    cudaMalloc(&prob, B * L * 4);
    cudaMalloc(&sums, 3 * sizeof(double));
    cudaMemcpy(dx, x.data(), N * L * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dt, t.data(), N * L * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(a.w, w.data(), NP * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(a.w, NP, DDP_FLOAT32);
    DDP_GRADIENT(a.g, NP, DDP_FLOAT32);
    for (int step = 1; step <= STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        size_t at = ((size_t)(step - 1) % (N / B) * B + first) * L;
        int n = (int)count * L;
        forward<<<count, L>>>(dx + at, a.w, prob);
        overlap<<<1, 1>>>(prob, dt + at, sums, n);
        DDP_REDUCE(sums, 3, DDP_FLOAT64, DDP_OP_SUM, 0);
        dice_backward<<<(n + 127) / 128, 128>>>(prob, dt + at, sums, (float)DDP_WORLD_SIZE(), n);
        gradient<<<2, 32>>>(dx + at, a.w, prob, a.g, (int)count);
        DDP_STEP(0);
        adam<<<2, 32>>>(a, step);
        if (step % 20 == 1 || step == STEPS) {
            double s[3];
            cudaMemcpy(s, sums, sizeof s, cudaMemcpyDeviceToHost); // of all ranks already
            if (DDP_RANK() == 0)
                printf("step %d dice loss %.7g\n", step, 1 - 2 * s[0] / (s[1] + s[2]));
        }
    }
}

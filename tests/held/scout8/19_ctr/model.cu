#include "model.h"
#include <cmath>

static int g(int n) { return (n + 63) / 64; }

__global__ void gather(const Impression *b, const float *table, float *in, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * WIDTH) return;
    int r = t / WIDTH, c = t % WIDTH;
    in[t] = c < NUM_FIELDS * EMB ? table[b[r].cat[c / EMB] * EMB + c % EMB] : b[r].dense[c - NUM_FIELDS * EMB];
}

__global__ void scatter(const Impression *b, const float *din, float *dtable, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * NUM_FIELDS * EMB) return;
    int r = t / (NUM_FIELDS * EMB), c = t % (NUM_FIELDS * EMB);
    atomicAdd(&dtable[b[r].cat[c / EMB] * EMB + c % EMB], din[r * WIDTH + c]);
}

template <int IN, int OUT, bool RELU> __global__ void fc(const float *x, const float *w, float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * OUT) return;
    int r = t / OUT, c = t % OUT;
    float s = w[c * (IN + 1) + IN];
    for (int k = 0; k < IN; k++) s += w[c * (IN + 1) + k] * x[r * IN + k];
    y[t] = RELU ? fmaxf(s, 0.f) : s;
}

template <int IN, int OUT> __global__ void fc_weights(const float *x, const float *dy, float *dw, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= OUT * (IN + 1)) return;
    int c = t / (IN + 1), k = t % (IN + 1);
    float s = 0;
    for (int r = 0; r < n; r++) s += dy[r * OUT + c] * (k < IN ? x[r * IN + k] : 1.f);
    dw[t] += s;
}

template <int IN, int OUT> __global__ void fc_input(const float *dy, const float *w, float *dx, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * IN) return;
    float s = 0;
    for (int c = 0; c < OUT; c++) s += dy[t / IN * OUT + c] * w[c * (IN + 1) + t % IN];
    dx[t] = s;
}

__global__ void relu_mask(const float *y, float *d, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n && y[t] <= 0) d[t] = 0;
}

__global__ void logloss(const Impression *b, const float *z, float *dz, float *loss, float scale, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    float p = 1.f / (1.f + expf(-z[t]));
    dz[t] = scale * (p - b[t].click);
    atomicAdd(loss, -logf(fmaxf(b[t].click > 0.5f ? p : 1.f - p, 1e-7f)));
}

__global__ void adagrad(float *w, const float *grad, float *accum, int n, float lr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n || grad[t] == 0.f) return;
    accum[t] += grad[t] * grad[t];
    w[t] -= lr * grad[t] / (sqrtf(accum[t]) + 1e-7f);
}

CTRModel::CTRModel(int max_batch) : max_batch_(max_batch)
{
    table_.create(0.3f);
    fc1_.create(1.f / sqrtf(WIDTH));
    fc2_.create(1.f / sqrtf(HIDDEN));
    CHECK_CUDA(cudaMalloc(&batch_, max_batch * sizeof(Impression)));
    CHECK_CUDA(cudaMalloc(&input_, max_batch * WIDTH * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&dinput_, max_batch * WIDTH * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&hidden_, max_batch * HIDDEN * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&dhidden_, max_batch * HIDDEN * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&logit_, max_batch * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&dlogit_, max_batch * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&loss_, sizeof(float)));
}

CTRModel::~CTRModel()
{
    table_.destroy();
    fc1_.destroy();
    fc2_.destroy();
    for (void *p : {(void *)batch_, (void *)input_, (void *)dinput_, (void *)hidden_, (void *)dhidden_, (void *)logit_, (void *)dlogit_, (void *)loss_}) cudaFree(p);
}

void CTRModel::forward(const Impression *host, int n)
{
    CHECK_CUDA(cudaMemcpy(batch_, host, n * sizeof(Impression), cudaMemcpyHostToDevice));
    gather<<<g(n * WIDTH), 64>>>(batch_, table_.value, input_, n);
    fc<WIDTH, HIDDEN, true><<<g(n * HIDDEN), 64>>>(input_, fc1_.value, hidden_, n);
    fc<HIDDEN, 1, false><<<g(n), 64>>>(hidden_, fc2_.value, logit_, n);
}

void CTRModel::predict(const Impression *host, int n, float *prob)
{
    for (int i = 0; i < n; i += max_batch_) {
        int k = n - i < max_batch_ ? n - i : max_batch_;
        forward(host + i, k);
        CHECK_CUDA(cudaMemcpy(prob + i, logit_, k * sizeof(float), cudaMemcpyDeviceToHost));
    }
    for (int i = 0; i < n; i++) prob[i] = 1.f / (1.f + expf(-prob[i]));
}

float CTRModel::accumulate(const Impression *host, int n, float scale)
{
    float loss = 0;
    CHECK_CUDA(cudaMemset(loss_, 0, sizeof(float)));
    forward(host, n);
    logloss<<<g(n), 64>>>(batch_, logit_, dlogit_, loss_, scale, n);
    fc_weights<HIDDEN, 1><<<g(HIDDEN + 1), 64>>>(hidden_, dlogit_, fc2_.grad, n);
    fc_input<HIDDEN, 1><<<g(n * HIDDEN), 64>>>(dlogit_, fc2_.value, dhidden_, n);
    relu_mask<<<g(n * HIDDEN), 64>>>(hidden_, dhidden_, n * HIDDEN);
    fc_weights<WIDTH, HIDDEN><<<g(HIDDEN * (WIDTH + 1)), 64>>>(input_, dhidden_, fc1_.grad, n);
    fc_input<WIDTH, HIDDEN><<<g(n * WIDTH), 64>>>(dhidden_, fc1_.value, dinput_, n);
    scatter<<<g(n * NUM_FIELDS * EMB), 64>>>(batch_, dinput_, table_.grad, n);
    CHECK_CUDA(cudaMemcpy(&loss, loss_, sizeof(float), cudaMemcpyDeviceToHost));
    return loss;
}

void CTRModel::zero_grad()
{
    table_.zero();
    fc1_.zero();
    fc2_.zero();
}

template <int R, int C> static void update(Weights<R, C> &w, float lr)
{
    adagrad<<<g(w.size), 64>>>(w.value, w.grad, w.accum, w.size, lr);
}

void CTRModel::apply(float lr)
{
    update(table_, lr);
    update(fc1_, lr);
    update(fc2_, lr);
}

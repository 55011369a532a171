// A survival model: Cox's partial likelihood of a mini-batch, with a small network for the risk score. Adam.
#include <cmath>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

using std::vector;

static const int features = 7, hidden = 5, patients = 384, batch = 48, steps = 100;
static const int n_w = features * hidden, n_p = n_w + hidden;

__global__ void score(const float *x, const float *p, float *h, float *s)
{
    int n = blockIdx.x;
    s[n] = 0;
    for (int j = 0; j < hidden; ++j) {
        float a = 0;
        for (int i = 0; i < features; ++i)
            a += x[n * features + i] * p[i * hidden + j];
        h[n * hidden + j] = tanhf(a);
        s[n] += h[n * hidden + j] * p[n_w + j];
    }
}

// risk[i]: the sum of exp(score) over those who are still alive when i dies
__global__ void risk_sets(const float *s, const float *time, float *risk, int members)
{
    int i = threadIdx.x;
    float r = 0;
    for (int j = 0; j < members; ++j)
        if (time[j] >= time[i])
            r += expf(s[j]);
    risk[i] = r;
}

__global__ void cox_backward(const float *s, const float *time, const int *event, const float *risk, float *ds,
                             float *loss, int count)
{
    int j = threadIdx.x;
    float d = 0;
    for (int i = 0; i < count; ++i)
        if (event[i] && time[j] >= time[i])
            d += expf(s[j]) / risk[i];
    ds[j] = (d - event[j]) / count;
    loss[j] = event[j] ? logf(risk[j]) - s[j] : 0;
}

__global__ void gradient(const float *x, const float *p, const float *h, const float *ds, float *g, int count)
{
    int k = threadIdx.x, j = k % hidden, i = k / hidden;
    float sum = 0;
    for (int n = 0; n < count; ++n) {
        float a = h[n * hidden + j];
        sum += k < n_w ? ds[n] * p[n_w + j] * (1 - a * a) * x[n * features + i] : ds[n] * a;
    }
    g[k] = sum;
}

__global__ void adam(float *p, const float *g, float *m, float *v, float correction1, float correction2)
{
    int k = threadIdx.x;
    m[k] = .9f * m[k] + .1f * g[k];
    v[k] = .98f * v[k] + .02f * g[k] * g[k];
    p[k] -= .01f * m[k] / correction1 / (sqrtf(v[k] / correction2) + 1e-2f);
}

template <class T> T *on_device(const vector<T> &host)
{
    T *p = nullptr;
    if (cudaMalloc(&p, host.size() * sizeof(T)) != cudaSuccess)
        return nullptr;
    cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

static float draw()
{
    static unsigned s = 314159;
    s ^= s << 13, s ^= s >> 17, s ^= s << 5;
    return (s >> 8) / 16777216.f;
}

int main()
{
    vector<float> x(patients * features), time(patients), p(n_p);
    vector<int> event(patients);
    for (int n = 0; n < patients; ++n) {
        float risk = 0;
        for (int i = 0; i < features; ++i) {
            x[n * features + i] = 2 * draw() - 1;
            risk += (i % 3 - 1) * x[n * features + i];
        }
        time[n] = -std::log(draw() + 1e-6f) / std::exp(1.5f * risk);
        event[n] = draw() < .7f;
    }
    for (float &v : p)
        v = .8f * (draw() - .5f);
    vector<float> zero(n_p), scratch(batch * hidden);
    float *dx = on_device(x), *dt = on_device(time), *w = on_device(p), *g = on_device(zero), *m = on_device(zero),
          *v = on_device(zero), *h = on_device(scratch), *s = on_device(scratch), *risk = on_device(scratch),
          *ds = on_device(scratch), *loss = on_device(scratch);
    int *de = on_device(event);
    DDP_PARAMETER(w, n_p, DDP_FLOAT32);
    DDP_STATE(m, n_p, DDP_FLOAT32);
    DDP_STATE(v, n_p, DDP_FLOAT32);
    DDP_GRADIENT(g, n_p, DDP_FLOAT32);
    for (int step = 1; step <= steps; ++step) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        size_t at = (step - 1) % (patients / batch) * batch + first;
        int n = (int)count;
        score<<<n, 1>>>(dx + at * features, w, h, s);
        risk_sets<<<1, n>>>(s, dt + at, risk, n);
        cox_backward<<<1, n>>>(s, dt + at, de + at, risk, ds, loss, n);
        gradient<<<1, n_p>>>(dx + at * features, w, h, ds, g, n);
        DDP_STEP(0);
        adam<<<1, n_p>>>(w, g, m, v, 1 - std::pow(.9f, step), 1 - std::pow(.98f, step));
        if (step % 10 == 0) {
            vector<float> l(n);
            cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            float mean = 0;
            for (float value : l)
                mean += value / n;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                printf("step %d, partial likelihood %.7g\n", step, mean);
        }
    }
    return 0;
}

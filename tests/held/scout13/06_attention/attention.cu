// One head of self attention, mean pooling and a linear classifier, from scratch.
// Each block trains on one sequence and leaves its gradient in a row of its own; a second kernel adds up the rows.
#include <cmath>
#include <cstdio>
#include <cstdint>
#include <random>
#include <vector>
#include <cuda_runtime.h>

static constexpr int V = 16;  // vocabulary
static constexpr int T = 8;   // tokens
static constexpr int D = 8;   // width
static constexpr int C = 4;   // classes
static constexpr int B = 24;
static constexpr int N = 480;
static constexpr int STEPS = 60;

// offsets into the parameter vector
static constexpr int EMB = 0;
static constexpr int POS = EMB + V * D;
static constexpr int WQ = POS + T * D;
static constexpr int WK = WQ + D * D;
static constexpr int WV = WK + D * D;
static constexpr int WO = WV + D * D;
static constexpr int BO = WO + D * C;
static constexpr int P = BO + C;

__device__ void project(const float (*x)[D], const float *w, float (*y)[D], int t)
{
    for (int j = 0; j < D; ++j) {
        float a = 0.f;
        for (int k = 0; k < D; ++k) a += x[t][k] * w[k * D + j];
        y[t][j] = a;
    }
}

__global__ void sample_gradient(const float *theta, const uint8_t *tokens, const uint8_t *labels, float *rows, float *loss)
{
    __shared__ float x[T][D], q[T][D], k[T][D], v[T][D], a[T][T], o[T][D];
    __shared__ float pool[D], prob[C], dpool[D];
    __shared__ float dq[T][D], dk[T][D], dv[T][D], ds[T][T];
    const int t = threadIdx.x, sample = blockIdx.x;
    const uint8_t *tok = tokens + sample * T;
    float *g = rows + sample * P;
    const float scale = rsqrtf((float)D);

    for (int i = t; i < P; i += T) g[i] = 0.f;
    for (int j = 0; j < D; ++j) x[t][j] = theta[EMB + tok[t] * D + j] + theta[POS + t * D + j];
    __syncthreads();
    project(x, theta + WQ, q, t);
    project(x, theta + WK, k, t);
    project(x, theta + WV, v, t);
    __syncthreads();

    float top = -1e30f, sum = 0.f;
    for (int u = 0; u < T; ++u) {
        float s = 0.f;
        for (int j = 0; j < D; ++j) s += q[t][j] * k[u][j];
        a[t][u] = s * scale;
        top = fmaxf(top, a[t][u]);
    }
    for (int u = 0; u < T; ++u) sum += a[t][u] = expf(a[t][u] - top);
    for (int u = 0; u < T; ++u) a[t][u] /= sum;
    for (int j = 0; j < D; ++j) {
        o[t][j] = 0.f;
        for (int u = 0; u < T; ++u) o[t][j] += a[t][u] * v[u][j];
    }
    __syncthreads();

    if (t == 0) {
        for (int j = 0; j < D; ++j) {
            pool[j] = 0.f;
            for (int u = 0; u < T; ++u) pool[j] += o[u][j] / T;
        }
        float m = -1e30f, z = 0.f;
        for (int c = 0; c < C; ++c) {
            prob[c] = theta[BO + c];
            for (int j = 0; j < D; ++j) prob[c] += pool[j] * theta[WO + j * C + c];
            m = fmaxf(m, prob[c]);
        }
        for (int c = 0; c < C; ++c) z += prob[c] = expf(prob[c] - m);
        for (int c = 0; c < C; ++c) prob[c] /= z;
        loss[sample] = -logf(prob[labels[sample]] + 1e-12f);
        prob[labels[sample]] -= 1.f;
        for (int c = 0; c < C; ++c) g[BO + c] = prob[c];
        for (int j = 0; j < D; ++j) {
            dpool[j] = 0.f;
            for (int c = 0; c < C; ++c) {
                g[WO + j * C + c] = pool[j] * prob[c];
                dpool[j] += theta[WO + j * C + c] * prob[c] / T;
            }
        }
    }
    __syncthreads();

    // the gradient of every row of o is dpool
    float dot = 0.f;
    for (int u = 0; u < T; ++u) {
        ds[t][u] = 0.f;
        for (int j = 0; j < D; ++j) ds[t][u] += dpool[j] * v[u][j];
        dot += ds[t][u] * a[t][u];
    }
    for (int u = 0; u < T; ++u) ds[t][u] = a[t][u] * (ds[t][u] - dot) * scale;
    __syncthreads();
    for (int j = 0; j < D; ++j) {
        dq[t][j] = dk[t][j] = dv[t][j] = 0.f;
        for (int u = 0; u < T; ++u) {
            dq[t][j] += ds[t][u] * k[u][j];
            dk[t][j] += ds[u][t] * q[u][j];
            dv[t][j] += a[u][t] * dpool[j];
        }
    }
    __syncthreads();
    for (int i = t; i < D * D; i += T) {
        int r = i / D, c = i % D;
        float gq = 0.f, gk = 0.f, gv = 0.f;
        for (int u = 0; u < T; ++u) {
            gq += x[u][r] * dq[u][c];
            gk += x[u][r] * dk[u][c];
            gv += x[u][r] * dv[u][c];
        }
        g[WQ + i] = gq;
        g[WK + i] = gk;
        g[WV + i] = gv;
    }
    for (int j = 0; j < D; ++j) {
        float dx = 0.f;
        for (int c = 0; c < D; ++c)
            dx += dq[t][c] * theta[WQ + j * D + c] + dk[t][c] * theta[WK + j * D + c] + dv[t][c] * theta[WV + j * D + c];
        g[POS + t * D + j] = dx;
        atomicAdd(&g[EMB + tok[t] * D + j], dx);
    }
}

__global__ void reduce_rows(const float *rows, float *grad, int samples)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= P) return;
    float s = 0.f;
    for (int r = 0; r < samples; ++r) s += rows[r * P + i];
    grad[i] = s / samples;
}

__global__ void adam(float *theta, const float *grad, float2 *moments, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= P) return;
    float2 m = moments[i];
    m.x = 0.9f * m.x + 0.1f * grad[i];
    m.y = 0.99f * m.y + 0.01f * grad[i] * grad[i];
    theta[i] -= rate * (m.x / c1) / (sqrtf(m.y / c2) + 1e-7f);
    moments[i] = m;
}

int main()
{
    std::mt19937 rng(31);
    std::vector<uint8_t> tokens(N * T), labels(N);
    for (int n = 0; n < N; ++n) {  // one of the four markers 0..3 stands among other tokens
        for (int t = 0; t < T; ++t) tokens[n * T + t] = C + rng() % (V - C);
        labels[n] = rng() % C;
        tokens[n * T + rng() % T] = labels[n];
    }
    std::normal_distribution<float> init(0.f, 0.4f);
    std::vector<float> theta(P, 0.f);
    for (int i = 0; i < BO; ++i) theta[i] = init(rng);

    float *d_theta, *d_grad, *d_rows, *d_loss;
    float2 *d_moments;
    uint8_t *d_tokens, *d_labels;
    cudaMalloc(&d_theta, P * sizeof(float));
    cudaMalloc(&d_grad, P * sizeof(float));
    cudaMalloc(&d_moments, P * sizeof(float2));
    cudaMalloc(&d_rows, (size_t)B * P * sizeof(float));
    cudaMalloc(&d_loss, B * sizeof(float));
    cudaMalloc(&d_tokens, B * T);
    cudaMalloc(&d_labels, B);
    cudaMemcpy(d_theta, theta.data(), P * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(d_moments, 0, P * sizeof(float2));

    std::vector<float> loss(B);
    float p1 = 1.f, p2 = 1.f;
    for (int step = 1; step <= STEPS; ++step) {
        int at = (step - 1) % (N / B);
        cudaMemcpy(d_tokens, &tokens[at * B * T], B * T, cudaMemcpyHostToDevice);
        cudaMemcpy(d_labels, &labels[at * B], B, cudaMemcpyHostToDevice);
        sample_gradient<<<B, T>>>(d_theta, d_tokens, d_labels, d_rows, d_loss);
        reduce_rows<<<(P + 127) / 128, 128>>>(d_rows, d_grad, B);
        p1 *= 0.9f;
        p2 *= 0.99f;
        adam<<<(P + 127) / 128, 128>>>(d_theta, d_grad, d_moments, 0.02f, 1.f - p1, 1.f - p2);
        if (step % 10 == 0 || step == 1) {
            cudaMemcpy(loss.data(), d_loss, B * sizeof(float), cudaMemcpyDeviceToHost);
            float mean = 0.f;
            for (float l : loss) mean += l / B;
            printf("step %d loss %.4f\n", step, mean);
        }
    }
    cudaFree(d_theta); cudaFree(d_grad); cudaFree(d_moments); cudaFree(d_rows);
    cudaFree(d_loss); cudaFree(d_tokens); cudaFree(d_labels);
    return 0;
}

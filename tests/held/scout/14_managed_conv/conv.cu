// Small convolutional classifier, everything in managed memory.
// Tells circles, crosses and boxes apart in 10x10 images.
#include <cstdio>
#include <cmath>
#include <cstring>
#include <random>
#include <cuda_runtime.h>

constexpr int S = 10, K = 3, OC = 6, CS = S - K + 1, PS = CS / 2;
constexpr int FLAT = OC * PS * PS, CLASSES = 3, BATCH = 24;

__managed__ float total_loss;

struct Net {
    float *filters, *fbias, *fc, *fcbias;          // parameters
    float *d_filters, *d_fbias, *d_fc, *d_fcbias;  // their gradients
};
struct Work {
    float *image, *conv, *pool, *d_pool, *prob;
    int *label, *arg;
};

template <typename T> void managed(T *&p, size_t n)
{
    cudaMallocManaged(&p, n * sizeof(T));
    memset(p, 0, n * sizeof(T));
}

__global__ void conv_pool(Net net, Work w)
{
    // one block per image, one thread per pooled position of a channel
    int n = blockIdx.x, t = threadIdx.x;
    int c = t / (PS * PS), py = t / PS % PS, px = t % PS;
    float best = -1e30f;
    int where = 0;
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            int y = 2 * py + dy, x = 2 * px + dx;
            float s = net.fbias[c];
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++)
                    s += w.image[n * S * S + (y + i) * S + x + j] * net.filters[c * K * K + i * K + j];
            if (s > best) { best = s; where = y * CS + x; }
        }
    w.pool[n * FLAT + t] = best > 0 ? best : 0;
    w.arg[n * FLAT + t] = best > 0 ? where : -1;
}

__global__ void classify(Net net, Work w)
{
    int n = blockIdx.x, c = threadIdx.x;
    __shared__ float z[CLASSES];
    float s = net.fcbias[c];
    for (int i = 0; i < FLAT; i++) s += w.pool[n * FLAT + i] * net.fc[c * FLAT + i];
    z[c] = s;
    __syncthreads();
    float m = fmaxf(z[0], fmaxf(z[1], z[2]));
    float sum = expf(z[0] - m) + expf(z[1] - m) + expf(z[2] - m);
    float p = expf(s - m) / sum;
    if (c == w.label[n]) atomicAdd(&total_loss, -logf(p + 1e-12f));
    w.prob[n * CLASSES + c] = p;
}

__global__ void grad_fc(Net net, Work w)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0, b = 0;
    for (int n = 0; n < BATCH; n++) {
        float d = w.prob[n * CLASSES + c] - (w.label[n] == c);
        s += d * w.pool[n * FLAT + i];
        b += d;
    }
    net.d_fc[c * FLAT + i] = s / BATCH;
    if (i == 0) net.d_fcbias[c] = b / BATCH;
}

__global__ void grad_pool(Net net, Work w)
{
    int n = blockIdx.x, i = threadIdx.x;
    float s = 0;
    for (int c = 0; c < CLASSES; c++) s += (w.prob[n * CLASSES + c] - (w.label[n] == c)) * net.fc[c * FLAT + i];
    w.d_pool[n * FLAT + i] = w.arg[n * FLAT + i] >= 0 ? s / BATCH : 0;
}

__global__ void grad_filters(Net net, Work w)
{
    int c = blockIdx.x, i = threadIdx.x / K, j = threadIdx.x % K;
    float s = 0, b = 0;
    for (int n = 0; n < BATCH; n++)
        for (int p = 0; p < PS * PS; p++) {
            int k = n * FLAT + c * PS * PS + p;
            if (w.arg[k] < 0) continue;
            int y = w.arg[k] / CS, x = w.arg[k] % CS;
            s += w.d_pool[k] * w.image[n * S * S + (y + i) * S + x + j];
            b += w.d_pool[k];
        }
    net.d_filters[c * K * K + threadIdx.x] = s;
    if (threadIdx.x == 0) net.d_fbias[c] = b;
}

__global__ void apply_all(Net net, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < OC * K * K) net.filters[i] -= lr * net.d_filters[i];
    if (i < OC) net.fbias[i] -= lr * net.d_fbias[i];
    if (i < CLASSES * FLAT) net.fc[i] -= lr * net.d_fc[i];
    if (i < CLASSES) net.fcbias[i] -= lr * net.d_fcbias[i];
}

static std::mt19937 rng(1001);
static float unit() { return rng() / 4294967296.0f; }

static int draw(float *im)
{
    int kind = rng() % CLASSES;
    float cx = 4 + 2 * unit(), cy = 4 + 2 * unit(), r = 2.2f + unit();
    for (int y = 0; y < S; y++)
        for (int x = 0; x < S; x++) {
            float dx = fabsf(x - cx), dy = fabsf(y - cy), d;
            if (kind == 0) d = fabsf(sqrtf(dx * dx + dy * dy) - r);
            else if (kind == 1) d = fmaxf(fabsf(dx - dy), fmaxf(dx, dy) - r);
            else d = fabsf(fmaxf(dx, dy) - r);
            im[y * S + x] = fmaxf(0.f, 1 - d) + 0.3f * (unit() - 0.5f);
        }
    return kind;
}

int main()
{
    Net net;
    Work w;
    managed(net.filters, OC * K * K);     managed(net.d_filters, OC * K * K);
    managed(net.fbias, OC);               managed(net.d_fbias, OC);
    managed(net.fc, CLASSES * FLAT);      managed(net.d_fc, CLASSES * FLAT);
    managed(net.fcbias, CLASSES);         managed(net.d_fcbias, CLASSES);
    managed(w.image, BATCH * S * S);
    managed(w.conv, BATCH * OC * CS * CS);
    managed(w.pool, BATCH * FLAT);
    managed(w.d_pool, BATCH * FLAT);
    managed(w.prob, BATCH * CLASSES);
    managed(w.label, BATCH);
    managed(w.arg, BATCH * FLAT);
    for (int i = 0; i < OC * K * K; i++) net.filters[i] = (2 * unit() - 1) * 0.6f;
    for (int i = 0; i < CLASSES * FLAT; i++) net.fc[i] = (2 * unit() - 1) * 0.15f;

    float shown = 0;
    for (int step = 1; step <= 600; step++) {
        for (int n = 0; n < BATCH; n++) w.label[n] = draw(w.image + n * S * S);
        total_loss = 0;

        conv_pool<<<BATCH, FLAT>>>(net, w);
        classify<<<BATCH, CLASSES>>>(net, w);
        grad_fc<<<FLAT, CLASSES>>>(net, w);
        grad_pool<<<BATCH, FLAT>>>(net, w);
        grad_filters<<<OC, K * K>>>(net, w);
        apply_all<<<(CLASSES * FLAT + 63) / 64, 64>>>(net, 0.15f);
        cudaDeviceSynchronize();

        shown += total_loss / BATCH;
        if (step % 50 == 0) {
            printf("step %3d: loss %.4f\n", step, shown / 50);
            shown = 0;
        }
    }
    if (cudaError_t e = cudaGetLastError()) printf("error: %s\n", cudaGetErrorString(e));

    FILE *f = fopen("shapes.txt", "w");
    if (f) {
        for (int c = 0; c < OC; c++) {
            for (int i = 0; i < K * K; i++) fprintf(f, "%9.5f", net.filters[c * K * K + i]);
            fprintf(f, "\n");
        }
        fclose(f);
    }
    return 0;
}

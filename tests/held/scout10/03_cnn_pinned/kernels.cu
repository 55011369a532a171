#include "kernels.cuh"

__global__ void convForward(const float *img, const float *k, const float *b, float *out, int batch)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * CHANNELS * CONV * CONV)
        return;
    int x = idx % CONV, y = idx / CONV % CONV, c = idx / (CONV * CONV) % CHANNELS, n = idx / (CONV * CONV * CHANNELS);
    float s = b[c];
    for (int i = 0; i < KS; i++)
        for (int j = 0; j < KS; j++)
            s += img[(n * IMG + y + i) * IMG + x + j] * k[(c * KS + i) * KS + j];
    out[idx] = s > 0 ? s : 0;
}

__global__ void poolForward(const float *in, float *out, int *where, int batch)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * FLAT)
        return;
    int x = idx % POOL, y = idx / POOL % POOL, nc = idx / (POOL * POOL);
    int best = (nc * CONV + 2 * y) * CONV + 2 * x;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int at = (nc * CONV + 2 * y + i) * CONV + 2 * x + j;
            if (in[at] > in[best])
                best = at;
        }
    out[idx] = in[best];
    where[idx] = best;
}

__global__ void fcForward(const float *in, const float *w, const float *b, float *out, int batch)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * CLASSES)
        return;
    int c = idx % CLASSES, n = idx / CLASSES;
    float s = b[c];
    for (int i = 0; i < FLAT; i++)
        s += in[n * FLAT + i] * w[c * FLAT + i];
    out[idx] = s;
}

__global__ void softmaxLoss(const float *logits, const unsigned char *labels, float *dlogits, float *loss, int batch)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= batch)
        return;
    float m = -1e30f, s = 0;
    for (int c = 0; c < CLASSES; c++)
        m = fmaxf(m, logits[n * CLASSES + c]);
    for (int c = 0; c < CLASSES; c++)
        s += expf(logits[n * CLASSES + c] - m);
    for (int c = 0; c < CLASSES; c++) {
        float p = expf(logits[n * CLASSES + c] - m) / s;
        dlogits[n * CLASSES + c] = (p - (labels[n] == c)) / batch;
        if (labels[n] == c)
            loss[n] = -logf(p + 1e-9f);
    }
}

__global__ void fcBackward(const float *in, const float *dout, float *dw, float *db, int batch)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= CLASSES * FLAT)
        return;
    int i = idx % FLAT, c = idx / FLAT;
    float s = 0, t = 0;
    for (int n = 0; n < batch; n++) {
        s += in[n * FLAT + i] * dout[n * CLASSES + c];
        t += dout[n * CLASSES + c];
    }
    dw[idx] = s;
    if (i == 0)
        db[c] = t;
}

__global__ void fcBackwardInput(const float *w, const float *dout, float *din, int batch)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * FLAT)
        return;
    int i = idx % FLAT, n = idx / FLAT;
    float s = 0;
    for (int c = 0; c < CLASSES; c++)
        s += w[c * FLAT + i] * dout[n * CLASSES + c];
    din[idx] = s;
}

__global__ void poolBackward(const float *dpool, const int *where, float *dconv, int batch)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < batch * FLAT)
        dconv[where[idx]] = dpool[idx];
}

__global__ void convBackward(const float *img, const float *conv, const float *dconv, float *dk, float *db, int batch)
{
    // one block per output channel, one thread per image
    __shared__ float acc[KS * KS + 1];
    int c = blockIdx.x;
    if (threadIdx.x < KS * KS + 1)
        acc[threadIdx.x] = 0;
    __syncthreads();
    for (int n = threadIdx.x; n < batch; n += blockDim.x) {
        float part[KS * KS + 1] = {0};
        for (int y = 0; y < CONV; y++)
            for (int x = 0; x < CONV; x++) {
                int at = ((n * CHANNELS + c) * CONV + y) * CONV + x;
                float d = conv[at] > 0 ? dconv[at] : 0;
                if (d == 0)
                    continue;
                for (int i = 0; i < KS; i++)
                    for (int j = 0; j < KS; j++)
                        part[i * KS + j] += d * img[(n * IMG + y + i) * IMG + x + j];
                part[KS * KS] += d;
            }
        for (int i = 0; i < KS * KS + 1; i++)
            atomicAdd(&acc[i], part[i]);
    }
    __syncthreads();
    if (threadIdx.x < KS * KS)
        dk[c * KS * KS + threadIdx.x] = acc[threadIdx.x];
    if (threadIdx.x == KS * KS)
        db[c] = acc[KS * KS];
}

__global__ void sgdMomentum(float *p, float *v, const float *g, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = mu * v[i] - lr * g[i];
        p[i] += v[i];
    }
}

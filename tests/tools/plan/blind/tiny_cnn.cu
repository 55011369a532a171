// Convolution net (4 filters 3x3, ReLU, 2x2 max pooling, fully connected to 4 classes), plain SGD, data copied per
// batch. Truth: gradients (truth_step over dconv_w, dconv_b, dfc_w, dfc_b). Batches: 48 (3 epochs of 16 batches of 16
// images).
#include "truth.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMG    8
#define PIX    (IMG * IMG)
#define NF     4
#define CO     6 /* conv output side */
#define PO     3 /* pooled side */
#define FEAT   (NF * PO * PO)
#define NCLS   4
#define BATCH  16
#define NTRAIN 256
#define NTEST  64

static void
check(cudaError_t err, const char *what)
{
    if (err != cudaSuccess) {
        fprintf(stderr, "%s failed: %s\n", what, cudaGetErrorString(err));
        exit(EXIT_FAILURE);
    }
}

__global__ void
conv_relu_fwd(const float *img, const float *w, const float *b, float *out)
{
    int n = blockIdx.x, f = blockIdx.y;
    int y = threadIdx.y, x = threadIdx.x;
    float s = b[f];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            s += w[f * 9 + i * 3 + j] * img[n * PIX + (y + i) * IMG + x + j];
    out[((n * NF + f) * CO + y) * CO + x] = s > 0 ? s : 0;
}
__global__ void
pool_fwd(const float *in, float *out, int *where)
{
    int n = blockIdx.x, f = threadIdx.z, y = threadIdx.y, x = threadIdx.x;
    const float *p = in + (n * NF + f) * CO * CO;
    int best = (2 * y) * CO + 2 * x;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            int q = (2 * y + i) * CO + 2 * x + j;
            if (p[q] > p[best])
                best = q;
        }
    int o = n * FEAT + (f * PO + y) * PO + x;
    out[o] = p[best];
    where[o] = best;
}
__global__ void
fc_softmax(const float *feat, const float *w, const float *b, const int *label, float *prob, float *dlogit, float *loss)
{
    __shared__ float z[NCLS];
    int n = blockIdx.x, c = threadIdx.x;
    float s = b[c];
    for (int i = 0; i < FEAT; i++)
        s += w[c * FEAT + i] * feat[n * FEAT + i];
    z[c] = s;
    __syncthreads();
    float m = z[0], t = 0;
    for (int k = 1; k < NCLS; k++)
        m = fmaxf(m, z[k]);
    for (int k = 0; k < NCLS; k++)
        t += expf(z[k] - m);
    float p = expf(s - m) / t;
    prob[n * NCLS + c] = p;
    dlogit[n * NCLS + c] = (p - (label[n] == c)) / BATCH;
    if (label[n] == c)
        loss[n] = -logf(p + 1e-12f);
}
__global__ void
fc_grad(const float *feat, const float *dlogit, float *dw, float *db)
{
    int c = blockIdx.x, i = threadIdx.x;
    float s = 0, t = 0;
    for (int n = 0; n < BATCH; n++) {
        float d = dlogit[n * NCLS + c];
        s += d * feat[n * FEAT + i];
        t += d;
    }
    dw[c * FEAT + i] = s;
    if (i == 0)
        db[c] = t;
}
__global__ void
unpool(const float *w, const float *dlogit, const int *where, const float *conv, float *dconv)
{
    int n = blockIdx.x, i = threadIdx.x; /* i: feature */
    float s = 0;
    for (int c = 0; c < NCLS; c++)
        s += dlogit[n * NCLS + c] * w[c * FEAT + i];
    int base = (n * NF + i / (PO * PO)) * CO * CO;
    int q = where[n * FEAT + i];
    dconv[base + q] = conv[base + q] > 0 ? s : 0;
}
__global__ void
conv_grad(const float *img, const float *dconv, float *dw, float *db)
{
    int f = blockIdx.x, k = threadIdx.x, i = k / 3, j = k % 3;
    float s = 0, t = 0;
    for (int n = 0; n < BATCH; n++)
        for (int y = 0; y < CO; y++)
            for (int x = 0; x < CO; x++) {
                float d = dconv[((n * NF + f) * CO + y) * CO + x];
                s += d * img[n * PIX + (y + i) * IMG + x + j];
                t += d;
            }
    dw[f * 9 + k] = s;
    if (k == 0)
        db[f] = t;
}
__global__ void
sgd(float *p, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] -= lr * g[i];
}

static void
make(float *img, int *lab, int n)
{
    for (int k = 0; k < n; k++) {
        int c = rand() % NCLS, at = 1 + rand() % 6;
        lab[k] = c;
        for (int y = 0; y < IMG; y++)
            for (int x = 0; x < IMG; x++) {
                int on = c == 0 ? y == at : c == 1 ? x == at : c == 2 ? x == y : x + y == IMG - 1;
                img[k * PIX + y * IMG + x] = (on ? 1.0f : 0.0f) + 0.2f * ((float)rand() / RAND_MAX - 0.5f);
            }
    }
}
static float *
init(int n, float scale)
{
    float *h = (float *)malloc(n * sizeof(float)), *d;
    for (int i = 0; i < n; i++)
        h[i] = scale * (2.0f * rand() / RAND_MAX - 1.0f);
    check(cudaMalloc((void **)&d, n * sizeof(float)), "cudaMalloc");
    check(cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    free(h);
    return d;
}

int
main(void)
{
    srand(7);
    static float train[NTRAIN * PIX], test[NTEST * PIX], h_loss[BATCH], h_prob[BATCH * NCLS];
    static int trlab[NTRAIN], telab[NTEST];
    make(train, trlab, NTRAIN);
    make(test, telab, NTEST);
    float *cw = init(NF * 9, 0.5f), *cb = init(NF, 0), *fw = init(NCLS * FEAT, 0.2f), *fb = init(NCLS, 0);
    float *dcw = init(NF * 9, 0), *dcb = init(NF, 0), *dfw = init(NCLS * FEAT, 0), *dfb = init(NCLS, 0);
    float *x = init(BATCH * PIX, 0), *conv = init(BATCH * NF * CO * CO, 0), *dconv = init(BATCH * NF * CO * CO, 0);
    float *pool = init(BATCH * FEAT, 0), *prob = init(BATCH * NCLS, 0), *dl = init(BATCH * NCLS, 0),
          *loss = init(BATCH, 0);
    int *lab, *where;
    check(cudaMalloc((void **)&lab, BATCH * sizeof(int)), "malloc lab");
    check(cudaMalloc((void **)&where, BATCH * FEAT * sizeof(int)), "malloc where");
    const float lr = 0.4f;
    int it = 0;
    float running = 0;
    for (int epoch = 0; epoch < 3; epoch++)
        for (int s = 0; s < NTRAIN; s += BATCH, it++) {
            check(cudaMemcpy(x, train + s * PIX, BATCH * PIX * sizeof(float), cudaMemcpyHostToDevice), "copy batch");
            check(cudaMemcpy(lab, trlab + s, BATCH * sizeof(int), cudaMemcpyHostToDevice), "copy labels");
            conv_relu_fwd<<<dim3(BATCH, NF), dim3(CO, CO)>>>(x, cw, cb, conv);
            pool_fwd<<<BATCH, dim3(PO, PO, NF)>>>(conv, pool, where);
            fc_softmax<<<BATCH, NCLS>>>(pool, fw, fb, lab, prob, dl, loss);
            fc_grad<<<NCLS, FEAT>>>(pool, dl, dfw, dfb);
            cudaMemset(dconv, 0, BATCH * NF * CO * CO * sizeof(float));
            unpool<<<BATCH, FEAT>>>(fw, dl, where, conv, dconv);
            conv_grad<<<NF, 9>>>(x, dconv, dcw, dcb);
            if (truth_step({{dcw, NF * 9}, {dcb, NF}, {dfw, NCLS * FEAT}, {dfb, NCLS}})) {
                sgd<<<1, 64>>>(cw, dcw, NF * 9, lr);
                sgd<<<1, 64>>>(cb, dcb, NF, lr);
                sgd<<<(NCLS * FEAT + 63) / 64, 64>>>(fw, dfw, NCLS * FEAT, lr);
                sgd<<<1, 64>>>(fb, dfb, NCLS, lr);
            }
            check(cudaMemcpy(h_loss, loss, sizeof h_loss, cudaMemcpyDeviceToHost), "copy loss");
            float l = 0;
            for (int i = 0; i < BATCH; i++)
                l += h_loss[i] / BATCH;
            running = it ? 0.9f * running + 0.1f * l : l;
            if (it % 4 == 0 || it == 47)
                printf("iter %3d loss %.4f (avg %.4f)\n", it, l, running);
        }
    int ok = 0;
    for (int s = 0; s < NTEST; s += BATCH) {
        cudaMemcpy(x, test + s * PIX, BATCH * PIX * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(lab, telab + s, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        conv_relu_fwd<<<dim3(BATCH, NF), dim3(CO, CO)>>>(x, cw, cb, conv);
        pool_fwd<<<BATCH, dim3(PO, PO, NF)>>>(conv, pool, where);
        fc_softmax<<<BATCH, NCLS>>>(pool, fw, fb, lab, prob, dl, loss);
        cudaMemcpy(h_prob, prob, sizeof h_prob, cudaMemcpyDeviceToHost);
        for (int n = 0; n < BATCH; n++) {
            int b = 0;
            for (int c = 1; c < NCLS; c++)
                if (h_prob[n * NCLS + c] > h_prob[n * NCLS + b])
                    b = c;
            ok += b == telab[s + n];
        }
    }
    printf("test: %d of %d right\n", ok, NTEST);
    truth_dump({{cw, NF * 9}, {cb, NF}, {fw, NCLS * FEAT}, {fb, NCLS}});
    cudaDeviceReset();
    return 0;
}

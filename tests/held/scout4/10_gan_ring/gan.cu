// GAN for points on a ring. Generator 4-32-32-2, discriminator 2-48-32-1.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define MAX_LAYERS 3
#define BATCH 64
#define Z_DIM 4
#define ITERS 200

#define TPB 128
#define GRID(n) (((n) + TPB - 1) / TPB)

struct Layer {
    int in, out;
    int last;                   // no activation
    float *w, *b;               // parameters
    float *gw, *gb;             // gradients
    float *mw, *vw, *mb, *vb;   // adam
    float *x, *y, *dy, *dx;     // x, dx belong to the layer below
};

struct Net {
    int n;
    Layer layer[MAX_LAYERS];
    int t;
};

__global__ void fc(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int last)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * w[k * out + c];
    y[i] = last || s > 0 ? s : 0.2f * s;
}

// multiplies by the slope of leaky relu first, if there is one
__global__ void fc_slope(const float *y, float *dy, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0) dy[i] *= 0.2f;
}

__global__ void fc_grad(const float *x, const float *dy, float *gw, float *gb, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int k = i / out, c = i % out;
    float s = 0, sb = 0;
    for (int r = 0; r < n; r++) {
        s += x[r * in + k] * dy[r * out + c];
        sb += dy[r * out + c];
    }
    gw[i] += s;
    if (k == 0) gb[c] += sb;
}

__global__ void fc_back(const float *dy, const float *w, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = 0;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * w[k * out + c];
    dx[i] = s;
}

// binary cross entropy with logits against a constant label
__global__ void bce(const float *logit, float *dlogit, float *loss, float label, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = logit[i];
    dlogit[i] = (1 / (1 + expf(-z)) - label) / n;
    atomicAdd(loss, (fmaxf(z, 0.0f) - z * label + log1pf(expf(-fabsf(z)))) / n);
}

__global__ void adam(float *p, const float *g, float *m, float *v, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.5f * m[i] + 0.5f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= lr * m[i] / (sqrtf(v[i]) + 1e-6f);
}

static float *zeros(int n)
{
    float *p = NULL;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) { puts("out of memory"); exit(1); }
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static float uniform(void) { return rand() / (float)RAND_MAX; }
static float gaussian(void)
{
    float u = uniform() * 0.9999f + 1e-5f;
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * uniform());
}

static void net_init(Net *net, const int *sizes, int n, int batch)
{
    net->n = n;
    net->t = 0;
    for (int l = 0; l < n; l++) {
        Layer *L = &net->layer[l];
        L->in = sizes[l];
        L->out = sizes[l + 1];
        L->last = l == n - 1;
        int nw = L->in * L->out;
        L->w = zeros(nw); L->b = zeros(L->out);
        L->gw = zeros(nw); L->gb = zeros(L->out);
        L->mw = zeros(nw); L->vw = zeros(nw);
        L->mb = zeros(L->out); L->vb = zeros(L->out);
        L->y = zeros(batch * L->out);
        L->dy = zeros(batch * L->out);
        L->dx = l == 0 ? zeros(batch * L->in) : net->layer[l - 1].dy;
        L->x = l == 0 ? NULL : net->layer[l - 1].y;
        float *h = (float *)malloc(nw * sizeof(float));
        for (int i = 0; i < nw; i++) h[i] = gaussian() * sqrtf(1.6f / L->in);
        cudaMemcpy(L->w, h, nw * sizeof(float), cudaMemcpyHostToDevice);
        free(h);
    }
}

static float *net_forward(Net *net, float *x, int n)
{
    net->layer[0].x = x;
    for (int l = 0; l < net->n; l++) {
        Layer *L = &net->layer[l];
        fc<<<GRID(n * L->out), TPB>>>(L->x, L->w, L->b, L->y, n, L->in, L->out, L->last);
    }
    return net->layer[net->n - 1].y;
}

// expects the gradient of the output in the last layer's dy; returns the gradient of the input
static float *net_backward(Net *net, int n)
{
    for (int l = net->n - 1; l >= 0; l--) {
        Layer *L = &net->layer[l];
        if (!L->last) fc_slope<<<GRID(n * L->out), TPB>>>(L->y, L->dy, n * L->out);
        fc_grad<<<GRID(L->in * L->out), TPB>>>(L->x, L->dy, L->gw, L->gb, n, L->in, L->out);
        fc_back<<<GRID(n * L->in), TPB>>>(L->dy, L->w, L->dx, n, L->in, L->out);
    }
    return net->layer[0].dx;
}

static void net_zero_grad(Net *net)
{
    for (int l = 0; l < net->n; l++) {
        cudaMemset(net->layer[l].gw, 0, net->layer[l].in * net->layer[l].out * sizeof(float));
        cudaMemset(net->layer[l].gb, 0, net->layer[l].out * sizeof(float));
    }
}

static void net_step(Net *net, float lr)
{
    net->t++;
    float rate = lr * sqrtf(1 - powf(0.99f, net->t)) / (1 - powf(0.5f, net->t));
    for (int l = 0; l < net->n; l++) {
        Layer *L = &net->layer[l];
        adam<<<GRID(L->in * L->out), TPB>>>(L->w, L->gw, L->mw, L->vw, rate, L->in * L->out);
        adam<<<GRID(L->out), TPB>>>(L->b, L->gb, L->mb, L->vb, rate, L->out);
    }
}

int main(void)
{
    srand(3);
    Net G, D;
    int gs[] = {Z_DIM, 32, 32, 2}, ds[] = {2, 48, 32, 1};
    net_init(&G, gs, 3, BATCH);
    net_init(&D, ds, 3, BATCH);

    float *real = zeros(BATCH * 2), *z = zeros(BATCH * Z_DIM);
    float *d_loss = zeros(2);
    float h_real[BATCH * 2], h_z[BATCH * Z_DIM], h_fake[BATCH * 2], loss[2];

    for (int it = 0; it < ITERS; it++) {
        for (int i = 0; i < BATCH; i++) {
            float a = 6.2831853f * uniform(), r = 1.0f + 0.05f * gaussian();
            h_real[2 * i] = r * cosf(a);
            h_real[2 * i + 1] = r * sinf(a);
        }
        for (int i = 0; i < BATCH * Z_DIM; i++) h_z[i] = gaussian();
        cudaMemcpy(real, h_real, sizeof(h_real), cudaMemcpyHostToDevice);
        cudaMemcpy(z, h_z, sizeof(h_z), cudaMemcpyHostToDevice);
        cudaMemset(d_loss, 0, 2 * sizeof(float));

        // discriminator: real points, then fake ones
        float *fake = net_forward(&G, z, BATCH);
        net_zero_grad(&D);
        float *logit = net_forward(&D, real, BATCH);
        bce<<<GRID(BATCH), TPB>>>(logit, D.layer[D.n - 1].dy, d_loss, 0.9f, BATCH);
        net_backward(&D, BATCH);
        logit = net_forward(&D, fake, BATCH);
        bce<<<GRID(BATCH), TPB>>>(logit, D.layer[D.n - 1].dy, d_loss, 0.0f, BATCH);
        net_backward(&D, BATCH);
        net_step(&D, 0.015f);

        // generator, through the new discriminator
        for (int i = 0; i < BATCH * Z_DIM; i++) h_z[i] = gaussian();
        cudaMemcpy(z, h_z, sizeof(h_z), cudaMemcpyHostToDevice);
        fake = net_forward(&G, z, BATCH);
        logit = net_forward(&D, fake, BATCH);
        bce<<<GRID(BATCH), TPB>>>(logit, D.layer[D.n - 1].dy, d_loss + 1, 1.0f, BATCH);
        float *dfake = net_backward(&D, BATCH);
        cudaMemcpy(G.layer[G.n - 1].dy, dfake, BATCH * 2 * sizeof(float), cudaMemcpyDeviceToDevice);
        net_zero_grad(&G);
        net_backward(&G, BATCH);
        net_step(&G, 0.004f);

        if (it % 20 == 19 || it == 0) {
            cudaMemcpy(loss, d_loss, sizeof(loss), cudaMemcpyDeviceToHost);
            cudaMemcpy(h_fake, fake, sizeof(h_fake), cudaMemcpyDeviceToHost);
            float off = 0;
            for (int i = 0; i < BATCH; i++) off += fabsf(hypotf(h_fake[2 * i], h_fake[2 * i + 1]) - 1) / BATCH;
            printf("iter %3d  D loss %.4f  G loss %.4f  distance to ring %.4f\n", it + 1, loss[0], loss[1], off);
        }
    }
    return 0;
}

/* moons.cu: two half moons, 2-24-24-1 network in doubles, RMSprop,
   batches drawn by rand(). */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

typedef double real;

#define LAYERS 3
#define NSAMPLES 600
#define NHELD 200

struct Net {
    int dim[LAYERS + 1];
    real *W[LAYERS], *b[LAYERS];
    real *gW[LAYERS], *gb[LAYERS];
    real *sW[LAYERS], *sb[LAYERS];   /* running squares */
    real *a[LAYERS + 1];             /* a[0] is the input */
    real *d[LAYERS];
};

static real uniform01() { return rand() / (RAND_MAX + 1.0); }

void net_create(Net *net, const int *dims, int max_rows)
{
    memcpy(net->dim, dims, sizeof net->dim);
    cudaMalloc(&net->a[0], sizeof(real) * max_rows * dims[0]);
    for (int l = 0; l < LAYERS; ++l) {
        int nw = dims[l] * dims[l + 1], nb = dims[l + 1];
        cudaMalloc(&net->W[l], sizeof(real) * nw);
        cudaMalloc(&net->gW[l], sizeof(real) * nw);
        cudaMalloc(&net->sW[l], sizeof(real) * nw);
        cudaMalloc(&net->b[l], sizeof(real) * nb);
        cudaMalloc(&net->gb[l], sizeof(real) * nb);
        cudaMalloc(&net->sb[l], sizeof(real) * nb);
        cudaMalloc(&net->a[l + 1], sizeof(real) * max_rows * nb);
        cudaMalloc(&net->d[l], sizeof(real) * max_rows * nb);
        cudaMemset(net->sW[l], 0, sizeof(real) * nw);
        cudaMemset(net->b[l], 0, sizeof(real) * nb);
        cudaMemset(net->sb[l], 0, sizeof(real) * nb);
        real *h = new real[nw];
        for (int i = 0; i < nw; ++i) h[i] = (2 * uniform01() - 1) * sqrt(3.0 / dims[l]);
        cudaMemcpy(net->W[l], h, sizeof(real) * nw, cudaMemcpyHostToDevice);
        delete[] h;
    }
}

void net_destroy(Net *net)
{
    cudaFree(net->a[0]);
    for (int l = 0; l < LAYERS; ++l) {
        cudaFree(net->W[l]);  cudaFree(net->b[l]);
        cudaFree(net->gW[l]); cudaFree(net->gb[l]);
        cudaFree(net->sW[l]); cudaFree(net->sb[l]);
        cudaFree(net->a[l + 1]); cudaFree(net->d[l]);
    }
}

/* block = sample, thread = output unit */
__global__ void affine_tanh(const real *x, const real *W, const real *b, real *y, int in, int last)
{
    int r = blockIdx.x, c = threadIdx.x, out = blockDim.x;
    real s = b[c];
    for (int i = 0; i < in; ++i) s += x[r * in + i] * W[i * out + c];
    y[r * out + c] = last ? 1 / (1 + exp(-s)) : tanh(s);
}

__global__ void output_delta(const real *p, const real *t, real *d, real *loss, int rows)
{
    extern __shared__ real part[];
    int r = threadIdx.x;
    part[r] = 0;
    if (r < rows) {
        d[r] = (p[r] - t[r]) / rows;
        part[r] = t[r] > 0.5 ? -log(p[r] + 1e-15) : -log(1 - p[r] + 1e-15);
    }
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (r < k) part[r] += part[r + k];
        __syncthreads();
    }
    if (r == 0) *loss = part[0] / rows;
}

__global__ void hidden_delta(const real *dn, const real *W, const real *y, real *d, int next)
{
    int r = blockIdx.x, c = threadIdx.x, width = blockDim.x;
    real s = 0;
    for (int k = 0; k < next; ++k) s += dn[r * next + k] * W[c * next + k];
    real v = y[r * width + c];
    d[r * width + c] = s * (1 - v * v);
}

__global__ void param_grad(const real *x, const real *d, real *gW, real *gb, int rows)
{
    int i = blockIdx.x, c = threadIdx.x, in = gridDim.x, out = blockDim.x;
    real s = 0, t = 0;
    for (int r = 0; r < rows; ++r) {
        s += x[r * in + i] * d[r * out + c];
        t += d[r * out + c];
    }
    gW[i * out + c] = s;
    if (i == 0) gb[c] = t;
}

__global__ void rms_step(real *p, const real *g, real *s, int n, real rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[i] = 0.9 * s[i] + 0.1 * g[i] * g[i];
        p[i] -= rate * g[i] / (sqrt(s[i]) + 1e-6);
    }
}

void net_forward(Net *net, int rows)
{
    for (int l = 0; l < LAYERS; ++l)
        affine_tanh<<<rows, net->dim[l + 1]>>>(net->a[l], net->W[l], net->b[l], net->a[l + 1], net->dim[l], l == LAYERS - 1);
}

void net_backward(Net *net, int rows)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        param_grad<<<net->dim[l], net->dim[l + 1]>>>(net->a[l], net->d[l], net->gW[l], net->gb[l], rows);
        if (l) hidden_delta<<<rows, net->dim[l]>>>(net->d[l], net->W[l], net->a[l], net->d[l - 1], net->dim[l + 1]);
    }
}

void net_step(Net *net, real rate)
{
    for (int l = 0; l < LAYERS; ++l) {
        int nw = net->dim[l] * net->dim[l + 1], nb = net->dim[l + 1];
        rms_step<<<(nw + 95) / 96, 96>>>(net->W[l], net->gW[l], net->sW[l], nw, rate);
        rms_step<<<(nb + 95) / 96, 96>>>(net->b[l], net->gb[l], net->sb[l], nb, rate);
    }
}

void make_moon(real *x, real *t)
{
    real a = M_PI * uniform01(), nx = 0.2 * (uniform01() - 0.5), ny = 0.2 * (uniform01() - 0.5);
    *t = rand() % 2;
    x[0] = (*t ? 1 - cos(a) : cos(a)) + nx;
    x[1] = (*t ? 0.5 - sin(a) : sin(a)) + ny;
}

int main()
{
    srand(4242);
    static real X[NSAMPLES][2], T[NSAMPLES], XH[NHELD][2], TH[NHELD];
    for (int i = 0; i < NSAMPLES; ++i) make_moon(X[i], &T[i]);
    for (int i = 0; i < NHELD; ++i) make_moon(XH[i], &TH[i]);

    const int dims[] = {2, 24, 24, 1}, m = 40, iterations = 500;
    Net net;
    net_create(&net, dims, NHELD);
    real *d_t, *d_loss, *bx = new real[2 * m], *bt = new real[m], loss;
    cudaMalloc(&d_t, sizeof(real) * m);
    cudaMalloc(&d_loss, sizeof(real));

    for (int it = 0; it < iterations; ++it) {
        for (int k = 0; k < m; ++k) {
            int pick = rand() % NSAMPLES;
            bx[2 * k] = X[pick][0];
            bx[2 * k + 1] = X[pick][1];
            bt[k] = T[pick];
        }
        cudaMemcpy(net.a[0], bx, sizeof(real) * 2 * m, cudaMemcpyHostToDevice);
        cudaMemcpy(d_t, bt, sizeof(real) * m, cudaMemcpyHostToDevice);
        net_forward(&net, m);
        output_delta<<<1, 64, 64 * sizeof(real)>>>(net.a[LAYERS], d_t, net.d[LAYERS - 1], d_loss, m);
        net_backward(&net, m);
        net_step(&net, 0.003);
        if (it % 25 == 24) {
            cudaMemcpy(&loss, d_loss, sizeof(real), cudaMemcpyDeviceToHost);
            printf("iteration %d: cross entropy %.10f\n", it + 1, loss);
        }
    }

    cudaMemcpy(net.a[0], XH, sizeof XH, cudaMemcpyHostToDevice);
    net_forward(&net, NHELD);
    static real P[NHELD];
    cudaMemcpy(P, net.a[LAYERS], sizeof P, cudaMemcpyDeviceToHost);
    int good = 0;
    for (int i = 0; i < NHELD; ++i) good += (P[i] > 0.5) == (TH[i] > 0.5);
    printf("held out: %d of %d right\n", good, NHELD);

    net_destroy(&net);
    cudaFree(d_t);
    cudaFree(d_loss);
    delete[] bx;
    delete[] bt;
    return 0;
}

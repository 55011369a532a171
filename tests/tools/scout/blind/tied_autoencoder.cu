// Autoencoder whose decoder uses the transposed encoder matrices. RMSprop.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <random>
#include <vector>

#define NLAYERS 2
#define CUDA_OK(expr) ok((expr), #expr)

static void ok(cudaError_t status, const char *expr)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s failed: %s\n", expr, cudaGetErrorString(status));
    exit(2);
}

// Layer i maps dim[i] -> dim[i+1] when encoding and back when decoding.
typedef struct
{
    int nin, nout;
    float *w, *b_enc, *b_dec;       // w: nout x nin
    float *gw, *gb_enc, *gb_dec;
    float *sw, *sb_enc, *sb_dec;    // running squares
    float *a_enc, *a_dec;           // activations: batch x nout, batch x nin
    float *d_enc, *d_dec;           // deltas
} AELayer;

static AELayer layers[NLAYERS];

__device__ float act(float z, int linear) { return linear ? z : tanhf(z); }

// a = act(x W^T + b)
__global__ void encode_kernel(const float *x, const float *w, const float *b, float *a, int nin, int nout)
{
    int n = blockIdx.x, o = threadIdx.x;
    float z = b[o];
    for (int i = 0; i < nin; i++) z += w[o * nin + i] * x[n * nin + i];
    a[n * nout + o] = act(z, 0);
}

// a = act(h W + b)
__global__ void decode_kernel(const float *h, const float *w, const float *b, float *a, int nin, int nout, int linear)
{
    int n = blockIdx.x, i = threadIdx.x;
    float z = b[i];
    for (int o = 0; o < nout; o++) z += w[o * nin + i] * h[n * nout + o];
    a[n * nin + i] = act(z, linear);
}

__global__ void loss_kernel(const float *rec, const float *x, float *delta, float *loss, int batch, int n)
{
    __shared__ float s[32];
    int t = threadIdx.x;
    float acc = 0.0f;
    for (int i = t; i < batch * n; i += 32)
    {
        float d = rec[i] - x[i];
        delta[i] = 2.0f * d / (batch * n);
        acc += d * d;
    }
    s[t] = acc;
    __syncthreads();
    if (t == 0)
    {
        for (int i = 1; i < 32; i++) acc += s[i];
        *loss = acc / (batch * n);
    }
}

// delta of the code side of a decoder step: (dd W^T) * act'
__global__ void decode_back_kernel(const float *dd, const float *w, const float *a, float *dout, int nin, int nout)
{
    int n = blockIdx.x, o = threadIdx.x;
    float s = 0.0f;
    for (int i = 0; i < nin; i++) s += dd[n * nin + i] * w[o * nin + i];
    float v = a[n * nout + o];
    dout[n * nout + o] = s * (1.0f - v * v);
}

// delta of the input side of an encoder step: (de W) * act'
__global__ void encode_back_kernel(const float *de, const float *w, const float *a, float *dout, int nin, int nout)
{
    int n = blockIdx.x, i = threadIdx.x;
    float s = 0.0f;
    for (int o = 0; o < nout; o++) s += de[n * nout + o] * w[o * nin + i];
    float v = a[n * nin + i];
    dout[n * nin + i] = s * (1.0f - v * v);
}

// Both uses of w contribute to one gradient.
__global__ void tied_grad_kernel(const float *x, const float *de, const float *h, const float *dd,
                                 float *gw, float *gb_enc, float *gb_dec, int batch, int nin, int nout)
{
    int o = blockIdx.x, i = threadIdx.x;
    float g = 0.0f, ge = 0.0f, gd = 0.0f;
    for (int n = 0; n < batch; n++)
    {
        g += de[n * nout + o] * x[n * nin + i] + dd[n * nin + i] * h[n * nout + o];
        ge += de[n * nout + o];
        gd += dd[n * nin + i];
    }
    gw[o * nin + i] = g;
    if (i == 0) gb_enc[o] = ge;
    if (o == 0) gb_dec[i] = gd;
}

__global__ void rmsprop_kernel(float *w, const float *g, float *s, int n, float lr, float rho)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[i] = rho * s[i] + (1.0f - rho) * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(s[i]) + 1e-6f);
}

static float *dev(int n)
{
    float *p;
    CUDA_OK(cudaMalloc((void **)&p, n * sizeof(float)));
    CUDA_OK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static void layer_init(AELayer *l, int nin, int nout, int batch, std::mt19937 &rng)
{
    l->nin = nin;
    l->nout = nout;
    l->w = dev(nin * nout), l->gw = dev(nin * nout), l->sw = dev(nin * nout);
    l->b_enc = dev(nout), l->gb_enc = dev(nout), l->sb_enc = dev(nout);
    l->b_dec = dev(nin), l->gb_dec = dev(nin), l->sb_dec = dev(nin);
    l->a_enc = dev(batch * nout), l->d_enc = dev(batch * nout);
    l->a_dec = dev(batch * nin), l->d_dec = dev(batch * nin);
    std::vector<float> h(nin * nout);
    std::uniform_real_distribution<float> u(-1.0f / sqrtf((float)nin), 1.0f / sqrtf((float)nin));
    for (size_t i = 0; i < h.size(); i++) h[i] = u(rng);
    CUDA_OK(cudaMemcpy(l->w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
}

static void rmsprop(float *w, float *g, float *s, int n)
{
    rmsprop_kernel<<<(n + 63) / 64, 64>>>(w, g, s, n, 0.006f, 0.9f);
}

static void save(FILE *f, const float *d, int n)
{
    std::vector<float> h(n);
    CUDA_OK(cudaMemcpy(h.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost));
    fwrite(h.data(), sizeof(float), n, f);
}

int main(int argc, char **argv)
{
    const int dim[NLAYERS + 1] = {16, 10, 3}, batch = 24, total = 480, epochs = 12;
    std::mt19937 rng(31337);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> basis(3 * dim[0]), data(total * dim[0]);
    for (auto &v : basis) v = 0.5f * normal(rng);
    for (int n = 0; n < total; n++)
    {
        float z[3] = {normal(rng), normal(rng), normal(rng)};
        for (int i = 0; i < dim[0]; i++)
            data[n * dim[0] + i] = z[0] * basis[i] + z[1] * basis[dim[0] + i] + z[2] * basis[2 * dim[0] + i] + 0.02f * normal(rng);
    }
    for (int l = 0; l < NLAYERS; l++) layer_init(&layers[l], dim[l], dim[l + 1], batch, rng);
    float *x = dev(batch * dim[0]), *loss = dev(1);
    for (int e = 0; e < epochs; e++)
    {
        float sum = 0.0f, one;
        for (int s = 0; s < total; s += batch)
        {
            CUDA_OK(cudaMemcpy(x, &data[s * dim[0]], batch * dim[0] * sizeof(float), cudaMemcpyHostToDevice));
            float *in = x;
            for (int l = 0; l < NLAYERS; l++)
            {
                encode_kernel<<<batch, layers[l].nout>>>(in, layers[l].w, layers[l].b_enc, layers[l].a_enc, layers[l].nin, layers[l].nout);
                in = layers[l].a_enc;
            }
            for (int l = NLAYERS - 1; l >= 0; l--)
            {
                decode_kernel<<<batch, layers[l].nin>>>(in, layers[l].w, layers[l].b_dec, layers[l].a_dec, layers[l].nin, layers[l].nout, l == 0);
                in = layers[l].a_dec;
            }
            loss_kernel<<<1, 32>>>(in, x, layers[0].d_dec, loss, batch, dim[0]);
            for (int l = 0; l < NLAYERS; l++)
            {
                bool last = l + 1 == NLAYERS;
                decode_back_kernel<<<batch, layers[l].nout>>>(layers[l].d_dec, layers[l].w, last ? layers[l].a_enc : layers[l + 1].a_dec,
                                                              last ? layers[l].d_enc : layers[l + 1].d_dec, layers[l].nin, layers[l].nout);
            }
            for (int l = NLAYERS - 1; l > 0; l--)
                encode_back_kernel<<<batch, layers[l].nin>>>(layers[l].d_enc, layers[l].w, layers[l - 1].a_enc, layers[l - 1].d_enc, layers[l].nin, layers[l].nout);
            for (int l = 0; l < NLAYERS; l++)
            {
                AELayer *a = &layers[l];
                tied_grad_kernel<<<a->nout, a->nin>>>(l == 0 ? x : layers[l - 1].a_enc, a->d_enc, l + 1 == NLAYERS ? a->a_enc : layers[l + 1].a_dec,
                                                      a->d_dec, a->gw, a->gb_enc, a->gb_dec, batch, a->nin, a->nout);
            }
            for (AELayer &a : layers)
            {
                rmsprop(a.w, a.gw, a.sw, a.nin * a.nout);
                rmsprop(a.b_enc, a.gb_enc, a.sb_enc, a.nout);
                rmsprop(a.b_dec, a.gb_dec, a.sb_dec, a.nin);
            }
            CUDA_OK(cudaMemcpy(&one, loss, sizeof(float), cudaMemcpyDeviceToHost));
            sum += one;
        }
        printf("epoch %d reconstruction error %.5f\n", e + 1, sum / (total / batch));
    }
    FILE *f = fopen(argc > 1 ? argv[1] : "weights.bin", "wb");
    if (f == NULL) return 1;
    for (AELayer &a : layers)
    {
        save(f, a.w, a.nin * a.nout);
        save(f, a.b_enc, a.nout);
        save(f, a.b_dec, a.nin);
    }
    fclose(f);
    return 0;
}

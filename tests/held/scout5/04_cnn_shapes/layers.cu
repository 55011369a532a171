#include "cnn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 128
#define BLOCKS(n) (((n) + THREADS - 1) / THREADS)

__global__ void k_conv_fwd(const float *img, const float *w, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * CHANNELS * CONV_OUT * CONV_OUT) return;
    int x = i % CONV_OUT, y = i / CONV_OUT % CONV_OUT, c = i / (CONV_OUT * CONV_OUT) % CHANNELS;
    int s = i / (CONV_OUT * CONV_OUT * CHANNELS);
    float acc = b[c];
    for (int ky = 0; ky < KSIZE; ky++)
        for (int kx = 0; kx < KSIZE; kx++)
            acc += img[s * IMG * IMG + (y + ky) * IMG + x + kx] * w[(c * KSIZE + ky) * KSIZE + kx];
    out[i] = acc > 0 ? acc : 0.01f * acc;
}

__global__ void k_pool_fwd(const float *in, float *out, int *idx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * FC_IN) return;
    int x = i % POOL_OUT, y = i / POOL_OUT % POOL_OUT, sc = i / (POOL_OUT * POOL_OUT);
    int base = sc * CONV_OUT * CONV_OUT, best = base + 2 * y * CONV_OUT + 2 * x;
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            int j = base + (2 * y + dy) * CONV_OUT + 2 * x + dx;
            if (in[j] > in[best]) best = j;
        }
    out[i] = in[best];
    idx[i] = best;
}

__global__ void k_fc_fwd(const float *in, const float *w, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * NCLASS) return;
    int s = i / NCLASS, c = i % NCLASS;
    float acc = b[c];
    for (int k = 0; k < FC_IN; k++) acc += in[s * FC_IN + k] * w[c * FC_IN + k];
    out[i] = acc;
}

__global__ void k_loss(const float *score, const int *label, float *d_score, float *loss, int *hits, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float mx = score[s * NCLASS], sum = 0;
    int arg = 0;
    for (int c = 1; c < NCLASS; c++)
        if (score[s * NCLASS + c] > mx) { mx = score[s * NCLASS + c]; arg = c; }
    for (int c = 0; c < NCLASS; c++) sum += expf(score[s * NCLASS + c] - mx);
    for (int c = 0; c < NCLASS; c++)
        d_score[s * NCLASS + c] = (expf(score[s * NCLASS + c] - mx) / sum - (c == label[s])) / (float)n;
    loss[s] = logf(sum) + mx - score[s * NCLASS + label[s]];
    hits[s] = arg == label[s];
}

__global__ void k_fc_bwd_w(const float *in, const float *d, float *dw, float *db, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NCLASS * FC_IN) return;
    int c = i / FC_IN, k = i % FC_IN;
    float acc = 0, accb = 0;
    for (int s = 0; s < n; s++) {
        acc += in[s * FC_IN + k] * d[s * NCLASS + c];
        accb += d[s * NCLASS + c];
    }
    dw[i] = acc;
    if (k == 0) db[c] = accb;
}

__global__ void k_fc_bwd_x(const float *w, const float *d, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * FC_IN) return;
    float acc = 0;
    for (int c = 0; c < NCLASS; c++) acc += w[c * FC_IN + i % FC_IN] * d[i / FC_IN * NCLASS + c];
    dx[i] = acc;
}

__global__ void k_pool_bwd(const float *d_out, const int *idx, const float *conv_out, float *d_in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * FC_IN) return;
    d_in[idx[i]] = d_out[i] * (conv_out[idx[i]] > 0 ? 1.0f : 0.01f);
}

__global__ void k_conv_bwd(const float *img, const float *d, float *dw, float *db, int n)
{
    /* one block for each kernel element of each channel; the last block of a channel is the bias */
    __shared__ float part[THREADS];
    int c = blockIdx.y, e = blockIdx.x, ky = e / KSIZE, kx = e % KSIZE;
    float acc = 0;
    for (int t = threadIdx.x; t < n * CONV_OUT * CONV_OUT; t += blockDim.x) {
        int x = t % CONV_OUT, y = t / CONV_OUT % CONV_OUT, s = t / (CONV_OUT * CONV_OUT);
        float g = d[((s * CHANNELS + c) * CONV_OUT + y) * CONV_OUT + x];
        acc += e < KSIZE * KSIZE ? g * img[s * IMG * IMG + (y + ky) * IMG + x + kx] : g;
    }
    part[threadIdx.x] = acc;
    __syncthreads();
    for (int h = THREADS / 2; h; h >>= 1) {
        if (threadIdx.x < h) part[threadIdx.x] += part[threadIdx.x + h];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        if (e < KSIZE * KSIZE) dw[c * KSIZE * KSIZE + e] = part[0];
        else db[c] = part[0];
    }
}

__global__ void k_sgd(float *p, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * g[i];
}

static void layer_create(Layer *l, int nweight, int nbias, float scale)
{
    float *h = (float *)malloc(nweight * sizeof(float));
    for (int i = 0; i < nweight; i++) h[i] = scale * (2.0f * rand() / RAND_MAX - 1.0f);
    l->nweight = nweight;
    l->nbias = nbias;
    cudaMalloc((void **)&l->weight, nweight * sizeof(float));
    cudaMalloc((void **)&l->bias, nbias * sizeof(float));
    cudaMalloc((void **)&l->d_weight, nweight * sizeof(float));
    cudaMalloc((void **)&l->d_bias, nbias * sizeof(float));
    cudaMemcpy(l->weight, h, nweight * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(l->bias, 0, nbias * sizeof(float));
    free(h);
}

void net_create(Net *net, int max_batch)
{
    net->max_batch = max_batch;
    layer_create(&net->conv, CHANNELS * KSIZE * KSIZE, CHANNELS, 0.33f);
    layer_create(&net->fc, NCLASS * FC_IN, NCLASS, 0.1f);
    cudaMalloc((void **)&net->image, max_batch * IMG * IMG * sizeof(float));
    cudaMalloc((void **)&net->label, max_batch * sizeof(int));
    cudaMalloc((void **)&net->conv_out, max_batch * CHANNELS * CONV_OUT * CONV_OUT * sizeof(float));
    cudaMalloc((void **)&net->d_conv, max_batch * CHANNELS * CONV_OUT * CONV_OUT * sizeof(float));
    cudaMalloc((void **)&net->pool_out, max_batch * FC_IN * sizeof(float));
    cudaMalloc((void **)&net->d_pool, max_batch * FC_IN * sizeof(float));
    cudaMalloc((void **)&net->pool_idx, max_batch * FC_IN * sizeof(int));
    cudaMalloc((void **)&net->score, max_batch * NCLASS * sizeof(float));
    cudaMalloc((void **)&net->d_score, max_batch * NCLASS * sizeof(float));
    cudaMalloc((void **)&net->loss, max_batch * sizeof(float));
    cudaMalloc((void **)&net->hits, max_batch * sizeof(int));
}

void net_destroy(Net *net)
{
    Layer *ls[2] = {&net->conv, &net->fc};
    for (int i = 0; i < 2; i++) {
        cudaFree(ls[i]->weight); cudaFree(ls[i]->bias);
        cudaFree(ls[i]->d_weight); cudaFree(ls[i]->d_bias);
    }
    cudaFree(net->image); cudaFree(net->label); cudaFree(net->conv_out); cudaFree(net->d_conv);
    cudaFree(net->pool_out); cudaFree(net->d_pool); cudaFree(net->pool_idx); cudaFree(net->score);
    cudaFree(net->d_score); cudaFree(net->loss); cudaFree(net->hits);
}

void net_forward(Net *net, int n)
{
    k_conv_fwd<<<BLOCKS(n * CHANNELS * CONV_OUT * CONV_OUT), THREADS>>>(net->image, net->conv.weight, net->conv.bias, net->conv_out, n);
    k_pool_fwd<<<BLOCKS(n * FC_IN), THREADS>>>(net->conv_out, net->pool_out, net->pool_idx, n);
    k_fc_fwd<<<BLOCKS(n * NCLASS), THREADS>>>(net->pool_out, net->fc.weight, net->fc.bias, net->score, n);
    k_loss<<<BLOCKS(n), THREADS>>>(net->score, net->label, net->d_score, net->loss, net->hits, n);
}

void net_backward(Net *net, int n)
{
    k_fc_bwd_w<<<BLOCKS(NCLASS * FC_IN), THREADS>>>(net->pool_out, net->d_score, net->fc.d_weight, net->fc.d_bias, n);
    k_fc_bwd_x<<<BLOCKS(n * FC_IN), THREADS>>>(net->fc.weight, net->d_score, net->d_pool, n);
    cudaMemset(net->d_conv, 0, n * CHANNELS * CONV_OUT * CONV_OUT * sizeof(float));
    k_pool_bwd<<<BLOCKS(n * FC_IN), THREADS>>>(net->d_pool, net->pool_idx, net->conv_out, net->d_conv, n);
    k_conv_bwd<<<dim3(KSIZE * KSIZE + 1, CHANNELS), THREADS>>>(net->image, net->d_conv, net->conv.d_weight, net->conv.d_bias, n);
}

void net_update(Net *net, float lr)
{
    Layer *ls[2] = {&net->conv, &net->fc};
    for (int i = 0; i < 2; i++) {
        k_sgd<<<BLOCKS(ls[i]->nweight), THREADS>>>(ls[i]->weight, ls[i]->d_weight, lr, ls[i]->nweight);
        k_sgd<<<BLOCKS(ls[i]->nbias), THREADS>>>(ls[i]->bias, ls[i]->d_bias, lr, ls[i]->nbias);
    }
}

float net_loss(Net *net, int n, int *correct)
{
    float *l = (float *)malloc(n * sizeof(float)), sum = 0;
    int *h = (int *)malloc(n * sizeof(int));
    cudaMemcpy(l, net->loss, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(h, net->hits, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) { sum += l[i]; *correct += h[i]; }
    free(l);
    free(h);
    return sum / n;
}

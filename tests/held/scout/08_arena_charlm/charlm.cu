/*
 * Character model in the manner of Bengio 2003: the last T characters are
 * embedded, concatenated, and sent through one hidden layer. All parameters
 * live in one block of memory, so do the gradients and the two AdamW moments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

enum { V = 28, T = 4, E = 8, H = 64, NUM_TENSORS = 5 };

typedef struct {
    float *wte;  /* V x E   */
    float *w1;   /* T*E x H */
    float *b1;   /* H       */
    float *w2;   /* H x V   */
    float *b2;   /* V       */
} Tensors;

typedef struct {
    Tensors params, grads;
    size_t sizes[NUM_TENSORS];
    size_t num_parameters;
    float *params_memory, *grads_memory, *m_memory, *v_memory;
    int batch;
    float *emb, *hid, *logits, *demb, *dhid, *losses;
    int *inputs, *targets;
    cublasHandle_t cublas;
    float mean_loss;
} Model;

static void check(int ok, const char *what)
{
    if (!ok) { fprintf(stderr, "failed: %s\n", what); exit(1); }
}

static float *device_floats(size_t n)
{
    void *p;
    check(cudaMalloc(&p, n * sizeof(float)) == cudaSuccess, "cudaMalloc");
    return (float *)p;
}

static void point_tensors(Tensors *t, float *base, const size_t *sizes)
{
    float **slots[NUM_TENSORS] = {&t->wte, &t->w1, &t->b1, &t->w2, &t->b2};
    for (int i = 0; i < NUM_TENSORS; i++) {
        *slots[i] = base;
        base += sizes[i];
    }
}

static unsigned long long rng_state = 1337;
static unsigned rng_u32(void)
{
    rng_state ^= rng_state >> 12; rng_state ^= rng_state << 25; rng_state ^= rng_state >> 27;
    return (unsigned)((rng_state * 0x2545F4914F6CDD1Dull) >> 32);
}
static float rng_f(void) { return (rng_u32() >> 8) / 16777216.0f; }

static void model_build(Model *m, int batch)
{
    size_t sizes[NUM_TENSORS] = {V * E, T * E * H, H, H * V, V};
    memcpy(m->sizes, sizes, sizeof sizes);
    m->num_parameters = 0;
    for (int i = 0; i < NUM_TENSORS; i++) m->num_parameters += sizes[i];
    m->params_memory = device_floats(m->num_parameters);
    m->grads_memory = device_floats(m->num_parameters);
    m->m_memory = device_floats(m->num_parameters);
    m->v_memory = device_floats(m->num_parameters);
    cudaMemset(m->m_memory, 0, m->num_parameters * sizeof(float));
    cudaMemset(m->v_memory, 0, m->num_parameters * sizeof(float));
    point_tensors(&m->params, m->params_memory, sizes);
    point_tensors(&m->grads, m->grads_memory, sizes);

    float *init = (float *)malloc(m->num_parameters * sizeof(float));
    size_t k = 0;
    const float scale[NUM_TENSORS] = {0.5f, sqrtf(3.0f / (T * E)), 0, sqrtf(3.0f / H) * 0.5f, 0};
    for (int i = 0; i < NUM_TENSORS; i++)
        for (size_t j = 0; j < sizes[i]; j++) init[k++] = scale[i] * (2 * rng_f() - 1);
    cudaMemcpy(m->params_memory, init, k * sizeof(float), cudaMemcpyHostToDevice);
    free(init);

    m->batch = batch;
    m->emb = device_floats(batch * T * E);  m->demb = device_floats(batch * T * E);
    m->hid = device_floats(batch * H);      m->dhid = device_floats(batch * H);
    m->logits = device_floats(batch * V);   m->losses = device_floats(batch);
    check(cudaMalloc((void **)&m->inputs, batch * T * sizeof(int)) == cudaSuccess, "cudaMalloc");
    check(cudaMalloc((void **)&m->targets, batch * sizeof(int)) == cudaSuccess, "cudaMalloc");
    check(cublasCreate(&m->cublas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
}

__global__ void encoder_forward(float *out, const int *inp, const float *wte, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = wte[inp[i / E] * E + i % E];
}
__global__ void encoder_backward(float *dwte, const float *dout, const int *inp, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&dwte[inp[i / E] * E + i % E], dout[i]);
}
__global__ void tanh_bias(float *h, const float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) h[i] = tanhf(h[i] + b[i % H]);
}
__global__ void tanh_backward(float *dh, const float *h, float *db, int B)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= H) return;
    float s = 0;
    for (int b = 0; b < B; b++) {
        float d = dh[b * H + j] * (1 - h[b * H + j] * h[b * H + j]);
        dh[b * H + j] = d;
        s += d;
    }
    db[j] += s;
}
/* turns the logits into their own gradient */
__global__ void fused_classifier(float *logits, const float *b2, const int *targets, float *losses, float *db2, int B)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float *z = logits + b * V, mx = -1e30f, s = 0;
    for (int v = 0; v < V; v++) { z[v] += b2[v]; mx = fmaxf(mx, z[v]); }
    for (int v = 0; v < V; v++) s += expf(z[v] - mx);
    losses[b] = logf(s) + mx - z[targets[b]];
    for (int v = 0; v < V; v++) {
        z[v] = (expf(z[v] - mx) / s - (v == targets[b])) / B;
        atomicAdd(&db2[v], z[v]);
    }
}
__global__ void adamw_kernel(float *p, const float *g, float *m, float *v, size_t n, float lr, float b1, float b2,
                             float c1, float c2, float wd)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float mi = b1 * m[i] + (1 - b1) * g[i], vi = b2 * v[i] + (1 - b2) * g[i] * g[i];
    m[i] = mi;
    v[i] = vi;
    p[i] -= lr * ((mi / c1) / (sqrtf(vi / c2) + 1e-8f) + wd * p[i]);
}

/* row-major C = A(op) * B(op) */
static void matmul(Model *m, float *C, const float *A, const float *B, int M, int N, int K, int ta, int tb, float beta)
{
    const float alpha = 1;
    cublasSgemm(m->cublas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, N, M, K, &alpha, B,
                tb ? K : N, A, ta ? M : K, &beta, C, N);
}

#define BLOCKS(n) (((n) + 127) / 128), 128

static void model_zero_grad(Model *m) { cudaMemset(m->grads_memory, 0, m->num_parameters * sizeof(float)); }

static void model_forward_backward(Model *m, const int *inputs, const int *targets, int B)
{
    Tensors p = m->params, g = m->grads;
    cudaMemcpy(m->inputs, inputs, B * T * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(m->targets, targets, B * sizeof(int), cudaMemcpyHostToDevice);
    encoder_forward<<<BLOCKS(B * T * E)>>>(m->emb, m->inputs, p.wte, B * T * E);
    matmul(m, m->hid, m->emb, p.w1, B, H, T * E, 0, 0, 0);
    tanh_bias<<<BLOCKS(B * H)>>>(m->hid, p.b1, B * H);
    matmul(m, m->logits, m->hid, p.w2, B, V, H, 0, 0, 0);
    fused_classifier<<<BLOCKS(B)>>>(m->logits, p.b2, m->targets, m->losses, g.b2, B);
    matmul(m, g.w2, m->hid, m->logits, H, V, B, 1, 0, 1);
    matmul(m, m->dhid, m->logits, p.w2, B, H, V, 0, 1, 0);
    tanh_backward<<<BLOCKS(H)>>>(m->dhid, m->hid, g.b1, B);
    matmul(m, g.w1, m->emb, m->dhid, T * E, H, B, 1, 0, 1);
    matmul(m, m->demb, m->dhid, p.w1, B, T * E, H, 0, 1, 0);
    encoder_backward<<<BLOCKS(B * T * E)>>>(g.wte, m->demb, m->inputs, B * T * E);

    float *l = (float *)malloc(B * sizeof(float));
    cudaMemcpy(l, m->losses, B * sizeof(float), cudaMemcpyDeviceToHost);
    m->mean_loss = 0;
    for (int b = 0; b < B; b++) m->mean_loss += l[b] / B;
    free(l);
}

static void model_update(Model *m, float lr, float b1, float b2, float wd, int t)
{
    adamw_kernel<<<BLOCKS(m->num_parameters)>>>(m->params_memory, m->grads_memory, m->m_memory, m->v_memory,
        m->num_parameters, lr, b1, b2, 1 - powf(b1, t), 1 - powf(b2, t), wd);
}

int main(void)
{
    static const char *subj[] = {"the cat", "a dog", "my friend", "one bird"};
    static const char *verb[] = {" sees ", " likes ", " follows "};
    static char text[16384];
    size_t len = 0;
    while (len < sizeof text - 64)
        len += sprintf(text + len, "%s%s%s. ", subj[rng_u32() % 4], verb[rng_u32() % 3], subj[rng_u32() % 4]);
    int *tok = (int *)malloc(len * sizeof(int));
    for (size_t i = 0; i < len; i++) tok[i] = text[i] == ' ' ? 26 : text[i] == '.' ? 27 : text[i] - 'a';

    Model model;
    int B = 64;
    model_build(&model, B);
    printf("num_parameters: %zu\n", model.num_parameters);

    int *in = (int *)malloc(B * T * sizeof(int)), *out = (int *)malloc(B * sizeof(int));
    size_t pos = 0;
    for (int step = 1; step <= 300; step++) {
        for (int b = 0; b < B; b++, pos++) {
            if (pos + T >= len) pos = 0;
            memcpy(in + b * T, tok + pos, T * sizeof(int));
            out[b] = tok[pos + T];
        }
        model_zero_grad(&model);
        model_forward_backward(&model, in, out, B);
        model_update(&model, 3e-3f, 0.9f, 0.999f, 0.01f, step);
        if (step % 10 == 0) printf("step %d: loss %f\n", step, model.mean_loss);
    }
    return 0;
}

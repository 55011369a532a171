// Two moons, three layers, unified memory. Written to learn how cudaMallocManaged works.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

const int BATCH = 64;
const int POINTS = 1280;
const int EPOCHS = 8;

struct Layer {
    int in, out;
    float *W, *b;      // out x in, out
    float *dW, *db;
    float *z;          // activations, BATCH x out
    float *dz;
};

float rnd() { return rand() / (float)RAND_MAX; }

void init_layer(Layer *l, int in, int out)
{
    l->in = in;
    l->out = out;
    cudaMallocManaged(&l->W, in * out * sizeof(float));
    cudaMallocManaged(&l->b, out * sizeof(float));
    cudaMallocManaged(&l->dW, in * out * sizeof(float));
    cudaMallocManaged(&l->db, out * sizeof(float));
    cudaMallocManaged(&l->z, BATCH * out * sizeof(float));
    cudaMallocManaged(&l->dz, BATCH * out * sizeof(float));
    float s = sqrtf(6.0f / (in + out));
    for (int i = 0; i < in * out; i++)
        l->W[i] = (2 * rnd() - 1) * s;
    for (int i = 0; i < out; i++)
        l->b[i] = 0;
}

__global__ void layer_forward(const float *x, const float *W, const float *b, float *z, int in, int out, bool last)
{
    int n = blockIdx.x;
    int o = threadIdx.x;
    float s = b[o];
    for (int i = 0; i < in; i++)
        s += W[o * in + i] * x[n * in + i];
    z[n * out + o] = last ? 1.0f / (1.0f + expf(-s)) : tanhf(s);
}

__global__ void output_delta(const float *p, const float *y, float *dz, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dz[i] = (p[i] - y[i]) / n;
}

__global__ void hidden_delta(const float *W, const float *dz_next, const float *z, float *dz, int out_next, int out)
{
    int n = blockIdx.x;
    int o = threadIdx.x;
    float s = 0;
    for (int k = 0; k < out_next; k++)
        s += W[k * out + o] * dz_next[n * out_next + k];
    float a = z[n * out + o];
    dz[n * out + o] = s * (1 - a * a);
}

__global__ void layer_grad(const float *x, const float *dz, float *dW, float *db, int in, int out, int n)
{
    int o = blockIdx.x;
    for (int i = threadIdx.x; i < in; i += blockDim.x) {
        float s = 0;
        for (int k = 0; k < n; k++)
            s += dz[k * out + o] * x[k * in + i];
        dW[o * in + i] = s;
    }
    if (threadIdx.x == 0) {
        float s = 0;
        for (int k = 0; k < n; k++)
            s += dz[k * out + o];
        db[o] = s;
    }
}

__global__ void sgd(float *p, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] -= lr * g[i];
}

int main()
{
    srand(3);
    float *px = (float *)malloc(POINTS * 2 * sizeof(float));
    float *py = (float *)malloc(POINTS * sizeof(float));
    for (int i = 0; i < POINTS; i++) {
        float t = 3.14159265f * rnd();
        int c = rand() & 1;
        px[2 * i] = (c ? 1 - cosf(t) : cosf(t)) + 0.15f * (rnd() - 0.5f);
        px[2 * i + 1] = (c ? 0.4f - sinf(t) : sinf(t)) + 0.15f * (rnd() - 0.5f);
        py[i] = c;
    }

    Layer l1, l2, l3;
    init_layer(&l1, 2, 48);
    init_layer(&l2, 48, 48);
    init_layer(&l3, 48, 1);
    float *x, *y;
    cudaMallocManaged(&x, BATCH * 2 * sizeof(float));
    cudaMallocManaged(&y, BATCH * sizeof(float));

    float lr = 0.8f;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float loss = 0;
        int hits = 0;
        for (int s = 0; s < POINTS / BATCH; s++) {
            for (int i = 0; i < BATCH; i++) {
                x[2 * i] = px[2 * (s * BATCH + i)];
                x[2 * i + 1] = px[2 * (s * BATCH + i) + 1];
                y[i] = py[s * BATCH + i];
            }

            layer_forward<<<BATCH, l1.out>>>(x, l1.W, l1.b, l1.z, l1.in, l1.out, false);
            layer_forward<<<BATCH, l2.out>>>(l1.z, l2.W, l2.b, l2.z, l2.in, l2.out, false);
            layer_forward<<<BATCH, l3.out>>>(l2.z, l3.W, l3.b, l3.z, l3.in, l3.out, true);

            output_delta<<<1, BATCH>>>(l3.z, y, l3.dz, BATCH);
            hidden_delta<<<BATCH, l2.out>>>(l3.W, l3.dz, l2.z, l2.dz, l3.out, l2.out);
            hidden_delta<<<BATCH, l1.out>>>(l2.W, l2.dz, l1.z, l1.dz, l2.out, l1.out);
            layer_grad<<<l3.out, 32>>>(l2.z, l3.dz, l3.dW, l3.db, l3.in, l3.out, BATCH);
            layer_grad<<<l2.out, 32>>>(l1.z, l2.dz, l2.dW, l2.db, l2.in, l2.out, BATCH);
            layer_grad<<<l1.out, 32>>>(x, l1.dz, l1.dW, l1.db, l1.in, l1.out, BATCH);

            Layer *all[] = {&l1, &l2, &l3};
            for (Layer *l : all) {
                sgd<<<(l->in * l->out + 127) / 128, 128>>>(l->W, l->dW, lr, l->in * l->out);
                sgd<<<1, 64>>>(l->b, l->db, lr, l->out);
            }
            cudaDeviceSynchronize();

            for (int i = 0; i < BATCH; i++) {
                float p = fminf(fmaxf(l3.z[i], 1e-6f), 1 - 1e-6f);
                loss -= y[i] > 0.5f ? logf(p) : logf(1 - p);
                hits += (p > 0.5f) == (y[i] > 0.5f);
            }
        }
        printf("epoch %d loss %.4f accuracy %.2f%%\n", epoch, loss / POINTS, 100.0f * hits / POINTS);
    }
    return 0;
}

/*
 * Three spirals, a deep narrow network with tanh units. Training data stay on the GPU.
 *   ./train [learning rate]
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define N_LAYERS 4
#define N_CLASSES 3
#define N_POINTS 1920
#define N_TEST 192
#define BATCH 96
#define TILE 16

static const int sizes[N_LAYERS + 1] = {2, 40, 40, 24, N_CLASSES};

struct Layer {
    int n_in, n_out;
    float *W;       // n_out x n_in
    float *b;
    float *grad_W;
    float *grad_b;
    float *mom_W;
    float *mom_b;
    float *z;       // activations, BATCH x n_out
    float *delta;   // BATCH x n_out
};

#define CHECK(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort)
            exit(code);
    }
}

__global__ void forwardLayer(const float *in, struct Layer l, int rows, int hidden)
{
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row < rows && col < l.n_out) {
        float s = l.b[col];
        for (int k = 0; k < l.n_in; k++)
            s += in[row * l.n_in + k] * l.W[col * l.n_in + k];
        l.z[row * l.n_out + col] = hidden ? tanhf(s) : s;
    }
}

__global__ void outputDelta(struct Layer l, const int *labels, float *loss)
{
    int i = threadIdx.x;
    __shared__ float part[BATCH];
    float e[N_CLASSES], sum = 0, top = -1e30f;
    for (int c = 0; c < N_CLASSES; c++)
        top = fmaxf(top, l.z[i * N_CLASSES + c]);
    for (int c = 0; c < N_CLASSES; c++)
        sum += e[c] = expf(l.z[i * N_CLASSES + c] - top);
    for (int c = 0; c < N_CLASSES; c++)
        l.delta[i * N_CLASSES + c] = e[c] / sum - (labels[i] == c ? 1.0f : 0.0f);
    part[i] = -logf(e[labels[i]] / sum);
    __syncthreads();
    if (i == 0) {
        float t = 0;
        for (int k = 0; k < BATCH; k++)
            t += part[k];
        *loss = t / BATCH;
    }
}

__global__ void hiddenDelta(struct Layer l, struct Layer next)
{
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row < BATCH && col < l.n_out) {
        float s = 0, a = l.z[row * l.n_out + col];
        for (int k = 0; k < next.n_out; k++)
            s += next.delta[row * next.n_out + k] * next.W[k * l.n_out + col];
        l.delta[row * l.n_out + col] = s * (1 - a * a);
    }
}

__global__ void layerGradients(struct Layer l, const float *in)
{
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row < l.n_out && col <= l.n_in) {
        float s = 0;
        for (int i = 0; i < BATCH; i++)
            s += l.delta[i * l.n_out + row] * (col < l.n_in ? in[i * l.n_in + col] : 1.0f);
        if (col < l.n_in)
            l.grad_W[row * l.n_in + col] = s / BATCH;
        else
            l.grad_b[row] = s / BATCH;
    }
}

__global__ void momentum(float *w, const float *g, float *m, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = 0.9f * m[i] - lr * g[i];
        w[i] += m[i];
    }
}

static float uniform(float a, float b) { return a + (b - a) * rand() / (float)RAND_MAX; }

static void spiral(float *x, int *label)
{
    int c = rand() % N_CLASSES;
    float r = uniform(0.05f, 1.0f), a = 3.0f * r + 2.0944f * c + uniform(-0.12f, 0.12f);
    x[0] = 2 * r * cosf(a);
    x[1] = 2 * r * sinf(a);
    *label = c;
}

static void forward(struct Layer *net, const float *x, int rows)
{
    dim3 threads(TILE, TILE);
    for (int l = 0; l < N_LAYERS; l++) {
        dim3 blocks((net[l].n_out + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
        forwardLayer<<<blocks, threads>>>(l == 0 ? x : net[l - 1].z, net[l], rows, l < N_LAYERS - 1);
    }
}

static void backward(struct Layer *net, const float *x, const int *labels, float *loss)
{
    dim3 threads(TILE, TILE);
    outputDelta<<<1, BATCH>>>(net[N_LAYERS - 1], labels, loss);
    for (int l = N_LAYERS - 2; l >= 0; l--)
        hiddenDelta<<<dim3((net[l].n_out + TILE - 1) / TILE, (BATCH + TILE - 1) / TILE), threads>>>(net[l], net[l + 1]);
    for (int l = 0; l < N_LAYERS; l++)
        layerGradients<<<dim3((net[l].n_in + TILE) / TILE, (net[l].n_out + TILE - 1) / TILE), threads>>>(net[l], l == 0 ? x : net[l - 1].z);
}

static float testAccuracy(struct Layer *net, const float *d_x, const int *labels)
{
    static float z[BATCH * N_CLASSES];
    int right = 0;
    for (int first = 0; first < N_TEST; first += BATCH) {
        forward(net, d_x + first * 2, BATCH);
        CHECK(cudaMemcpy(z, net[N_LAYERS - 1].z, sizeof(z), cudaMemcpyDeviceToHost));
        for (int i = 0; i < BATCH; i++) {
            int best = 0;
            for (int c = 1; c < N_CLASSES; c++)
                if (z[i * N_CLASSES + c] > z[i * N_CLASSES + best])
                    best = c;
            right += best == labels[first + i];
        }
    }
    return right / (float)N_TEST;
}

int main(int argc, char **argv)
{
    float lr = argc > 1 ? atof(argv[1]) : 0.12f;
    srand(100);

    struct Layer net[N_LAYERS];
    for (int l = 0; l < N_LAYERS; l++) {
        struct Layer *p = &net[l];
        p->n_in = sizes[l];
        p->n_out = sizes[l + 1];
        int n = p->n_in * p->n_out;
        CHECK(cudaMalloc(&p->W, n * sizeof(float)));
        CHECK(cudaMalloc(&p->grad_W, n * sizeof(float)));
        CHECK(cudaMalloc(&p->mom_W, n * sizeof(float)));
        CHECK(cudaMalloc(&p->b, p->n_out * sizeof(float)));
        CHECK(cudaMalloc(&p->grad_b, p->n_out * sizeof(float)));
        CHECK(cudaMalloc(&p->mom_b, p->n_out * sizeof(float)));
        CHECK(cudaMalloc(&p->z, BATCH * p->n_out * sizeof(float)));
        CHECK(cudaMalloc(&p->delta, BATCH * p->n_out * sizeof(float)));
        float *w = new float[n];
        float lim = sqrtf(6.0f / (p->n_in + p->n_out));
        for (int i = 0; i < n; i++)
            w[i] = uniform(-lim, lim);
        CHECK(cudaMemcpy(p->W, w, n * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(p->b, 0, p->n_out * sizeof(float)));
        CHECK(cudaMemset(p->mom_W, 0, n * sizeof(float)));
        CHECK(cudaMemset(p->mom_b, 0, p->n_out * sizeof(float)));
        delete[] w;
    }

    static float x[N_POINTS * 2], x_test[N_TEST * 2];
    static int labels[N_POINTS], labels_test[N_TEST];
    for (int i = 0; i < N_POINTS; i++)
        spiral(x + 2 * i, labels + i);
    for (int i = 0; i < N_TEST; i++)
        spiral(x_test + 2 * i, labels_test + i);
    float *d_x, *d_x_test, *d_loss;
    int *d_labels;
    CHECK(cudaMalloc(&d_x, sizeof(x)));
    CHECK(cudaMalloc(&d_x_test, sizeof(x_test)));
    CHECK(cudaMalloc(&d_labels, sizeof(labels)));
    CHECK(cudaMalloc(&d_loss, sizeof(float)));
    CHECK(cudaMemcpy(d_x, x, sizeof(x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_x_test, x_test, sizeof(x_test), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_labels, labels, sizeof(labels), cudaMemcpyHostToDevice));

    const int batches = N_POINTS / BATCH;
    for (int iter = 0; iter < 9 * batches; iter++) {
        const float *bx = d_x + (iter % batches) * BATCH * 2;
        const int *by = d_labels + (iter % batches) * BATCH;
        if (iter == 7 * batches)
            lr *= 0.3f;

        forward(net, bx, BATCH);
        backward(net, bx, by, d_loss);
        for (int l = 0; l < N_LAYERS; l++) {
            int n = net[l].n_in * net[l].n_out;
            momentum<<<(n + 255) / 256, 256>>>(net[l].W, net[l].grad_W, net[l].mom_W, n, lr);
            momentum<<<1, 256>>>(net[l].b, net[l].grad_b, net[l].mom_b, net[l].n_out, lr);
        }

        if ((iter + 1) % batches == 0) {
            float loss;
            CHECK(cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost));
            printf("iter %4d  loss %.4f  test accuracy %.3f\n", iter + 1, loss, testAccuracy(net, d_x_test, labels_test));
        }
    }
    CHECK(cudaGetLastError());
    return 0;
}

/* loops.cu - a net as public trainers have it: one loop of a helper allocates all layers, a loop of another helper sets
 * them, and a batch has eight records, so that its labels are few bytes. lines.sh adds its lines. */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>
#define BATCH 8
#define IN    32
#define HID   24
#define OUT   10
__global__ void
forward(const float *x, const float *w, const float *b, float *y, int in, int out, int relu, const float *scale)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = b[j] + scale[j % 4];
    for (int k = 0; k < in; ++k)
        s += x[i * in + k] * w[k * out + j];
    y[i * out + j] = relu ? (s > 0 ? s : 0.01f * s) : s;
}
__global__ void
softmax_delta(const float *y, const int *label, float *dz, int out)
{
    int i = blockIdx.x;
    float m = -1e30f, sum = 0;
    for (int j = 0; j < out; ++j)
        m = fmaxf(m, y[i * out + j]);
    for (int j = 0; j < out; ++j)
        sum += expf(y[i * out + j] - m);
    for (int j = 0; j < out; ++j)
        dz[i * out + j] = (expf(y[i * out + j] - m) / sum - (j == label[i])) / BATCH;
}
__global__ void
weights(const float *x, const float *dz, float *dw, int in, int out)
{
    int k = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int i = 0; i < BATCH; ++i)
        s += x[i * in + k] * dz[i * out + j];
    dw[k * out + j] = s;
}
__global__ void
bias(const float *dz, float *db, int out)
{
    int j = threadIdx.x;
    float s = 0;
    for (int i = 0; i < BATCH; ++i)
        s += dz[i * out + j];
    db[j] = s;
}
__global__ void
backward(const float *dz, const float *w, const float *y, float *dx, int in, int out)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int j = 0; j < out; ++j)
        s += dz[i * out + j] * w[k * out + j];
    dx[i * in + k] = s * (y[i * in + k] > 0 ? 1 : 0.01f);
}
__global__ void
sgd(float *w, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}
struct Net {
    int layers, *sizes;
    float *w[2], *b[2], *dw[2], *db[2], *y[2], *dz[2];
};
static void
allocate(Net *net, int layers)
{
    for (int i = 0; i < layers; i++) {
        int n = net->sizes[i] * net->sizes[i + 1];
        cudaMalloc(&net->w[i], n * sizeof(float));
        cudaMalloc((void **)&net->b[i], net->sizes[i + 1] * sizeof(float));
        cudaMalloc(&net->dw[i], n * sizeof(float));
        cudaMalloc(&net->db[i], net->sizes[i + 1] * sizeof(float));
        cudaMalloc(&net->y[i], BATCH * net->sizes[i + 1] * sizeof(float));
        cudaMalloc(&net->dz[i], BATCH * net->sizes[i + 1] * sizeof(float));
    }
}
static void
initialise(Net *net)
{
    for (int i = 0; i < net->layers; i++) {
        std::vector<float> h(net->sizes[i] * net->sizes[i + 1]);
        for (float &v : h)
            v = (rand() / (float)RAND_MAX - 0.5f) * 0.5f;
        cudaMemcpy(net->w[i], h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(net->b[i], 0, net->sizes[i + 1] * sizeof(float));
    }
}
int
main()
{
    int sizes[] = {IN, HID, OUT};
    Net net;
    srand(3);
    net.layers = 2;
    net.sizes = sizes;
    allocate(&net, net.layers);
    initialise(&net);
    float *d_x;
    int *d_labels;
    cudaMalloc(&d_x, BATCH * IN * sizeof(float));
    cudaMalloc(&d_labels, BATCH * sizeof(int));
    std::vector<float> images(40 * BATCH * IN);
    std::vector<int> labels(40 * BATCH);
    for (float &v : images)
        v = rand() / (float)RAND_MAX;
    for (int &v : labels)
        v = rand() % OUT;
    float *d_scale, scale[4] = {};
    cudaMalloc(&d_scale, sizeof(scale));
    cudaMemset(d_scale, 0, sizeof(scale));
    for (int step = 0; step < 40; step++) {
#ifdef SCALE // numbers for all records, as few and as new in each step as labels are
        for (float &v : scale)
            v = rand() / (float)RAND_MAX;
        cudaMemcpy(d_scale, scale, sizeof(scale), cudaMemcpyHostToDevice);
#endif
        cudaMemcpy(d_x, images.data() + step * BATCH * IN, BATCH * IN * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(d_labels, labels.data() + step * BATCH, BATCH * sizeof(int), cudaMemcpyHostToDevice);
        forward<<<BATCH, HID>>>(d_x, net.w[0], net.b[0], net.y[0], IN, HID, 1, d_scale);
        forward<<<BATCH, OUT>>>(net.y[0], net.w[1], net.b[1], net.y[1], HID, OUT, 0, d_scale);
        softmax_delta<<<BATCH, 1>>>(net.y[1], d_labels, net.dz[1], OUT);
        weights<<<HID, OUT>>>(net.y[0], net.dz[1], net.dw[1], HID, OUT);
        bias<<<1, OUT>>>(net.dz[1], net.db[1], OUT);
        backward<<<BATCH, HID>>>(net.dz[1], net.w[1], net.y[0], net.dz[0], HID, OUT);
        weights<<<IN, HID>>>(d_x, net.dz[0], net.dw[0], IN, HID);
        bias<<<1, HID>>>(net.dz[0], net.db[0], HID);
        for (int l = 0; l < 2; l++) {
            int n = sizes[l] * sizes[l + 1];
            sgd<<<(n + 127) / 128, 128>>>(net.w[l], net.dw[l], 0.1f, n);
            sgd<<<1, sizes[l + 1]>>>(net.b[l], net.db[l], 0.1f, sizes[l + 1]);
        }
    }
    cudaDeviceSynchronize();
    printf("done\n");
}

// Residual MLP:  z = W_out (h + W2 relu(W1 h)),  h = relu(W_in x)
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "ops.h"
#include "tensor.h"

struct Model {
    Tensor w_in, b_in, w1, b1, w2, b2, w_out, b_out;
    // activations
    Tensor x, a, h, u, r, v, s, z;
};

static Model make_model(int batch, int in, int hidden, int inner, int classes)
{
    Model m;
    m.w_in = tensor_new(in, hidden, true);       m.b_in = tensor_new(1, hidden, true);
    m.w1 = tensor_new(hidden, inner, true);      m.b1 = tensor_new(1, inner, true);
    m.w2 = tensor_new(inner, hidden, true);      m.b2 = tensor_new(1, hidden, true);
    m.w_out = tensor_new(hidden, classes, true); m.b_out = tensor_new(1, classes, true);
    tensor_randn(m.w_in, sqrtf(2.0f / in));
    tensor_randn(m.w1, sqrtf(2.0f / hidden));
    tensor_randn(m.w2, sqrtf(0.5f / inner));
    tensor_randn(m.w_out, sqrtf(1.0f / hidden));
    for (Tensor *b : {&m.b_in, &m.b1, &m.b2, &m.b_out}) tensor_fill(*b, 0);
    m.x = tensor_new(batch, in, false);
    m.a = tensor_new(batch, hidden, true); m.h = tensor_new(batch, hidden, true);
    m.u = tensor_new(batch, inner, true);  m.r = tensor_new(batch, inner, true);
    m.v = tensor_new(batch, hidden, true); m.s = tensor_new(batch, hidden, true);
    m.z = tensor_new(batch, classes, true);
    return m;
}

static void forward(Model &m)
{
    linear_forward(m.x, m.w_in, m.b_in, m.a);
    relu_forward(m.a, m.h);
    linear_forward(m.h, m.w1, m.b1, m.u);
    relu_forward(m.u, m.r);
    linear_forward(m.r, m.w2, m.b2, m.v);
    add_forward(m.h, m.v, m.s);
    linear_forward(m.s, m.w_out, m.b_out, m.z);
}

static void backward(Model &m)
{
    for (Tensor *t : {&m.a, &m.h, &m.u, &m.r, &m.v, &m.s}) zero_grad(*t);
    linear_backward(m.s, m.w_out, m.b_out, m.z, true);
    // the sum hands its gradient to both branches
    cudaMemcpy(m.v.grad, m.s.grad, m.s.size() * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemcpy(m.h.grad, m.s.grad, m.s.size() * sizeof(float), cudaMemcpyDeviceToDevice);
    linear_backward(m.r, m.w2, m.b2, m.v, true);
    relu_backward(m.u, m.r);
    linear_backward(m.h, m.w1, m.b1, m.u, true);
    relu_backward(m.a, m.h);
    linear_backward(m.x, m.w_in, m.b_in, m.a, false);
}

int main()
{
    const int N = 1280, TEST = 256, B = 64, IN = 12, C = 5;
    std::vector<float> xs((N + TEST) * IN);
    std::vector<int> ys(N + TEST);
    unsigned seed = 1;
    auto uniform = [&seed] { seed = seed * 1103515245u + 12345u; return ((seed >> 16) & 0x7fff) / 32768.0f; };
    for (int i = 0; i < N + TEST; i++) {
        float q = 0;
        for (int k = 0; k < IN; k++) {
            xs[i * IN + k] = 2 * uniform() - 1;
            q += xs[i * IN + k] * (k % 3 == 0 ? 1.5f : k % 3 == 1 ? -1.0f : xs[i * IN]);
        }
        ys[i] = q < -1.5f ? 0 : q < -0.4f ? 1 : q < 0.4f ? 2 : q < 1.5f ? 3 : 4;
    }

    ops_init();
    Model m = make_model(B, IN, 32, 48, C);
    int *labels;
    float *losses;
    cudaMalloc(&labels, B * sizeof(int));
    cudaMalloc(&losses, B * sizeof(float));
    std::vector<float> hl(B), logits(B * C);

    float lr = 0.2f;
    int step = 0;
    for (int epoch = 0; epoch < 15; epoch++, lr *= 0.95f) {
        for (int i = 0; i + B <= N; i += B, step++) {
            tensor_upload(m.x, &xs[i * IN]);
            cudaMemcpy(labels, &ys[i], B * sizeof(int), cudaMemcpyHostToDevice);
            forward(m);
            softmax_xent(m.z, labels, losses);
            backward(m);
            for (Tensor *p : {&m.w_in, &m.b_in, &m.w1, &m.b1, &m.w2, &m.b2, &m.w_out, &m.b_out})
                sgd_update(*p, lr);
            if (step % 20 == 0) {
                cudaMemcpy(hl.data(), losses, B * sizeof(float), cudaMemcpyDeviceToHost);
                float sum = 0;
                for (float v : hl) sum += v;
                printf("iter %4d  loss %.4f\n", step, sum / B);
            }
        }
    }

    int right = 0;
    for (int i = N; i + B <= N + TEST; i += B) {
        tensor_upload(m.x, &xs[i * IN]);
        forward(m);
        tensor_download(m.z, logits.data());
        for (int r = 0; r < B; r++) {
            int best = 0;
            for (int c = 1; c < C; c++) if (logits[r * C + c] > logits[r * C + best]) best = c;
            right += best == ys[i + r];
        }
    }
    printf("test accuracy %.3f\n", (float)right / TEST);
    ops_shutdown();
    return 0;
}

#include "dataset.h"
#include "layer.h"
#include <cstdio>
#include <cstdlib>
#include <vector>

static const int batch_size = 32;
static const float dt = 0.15f;

static const int train_cnt = 512, test_cnt = 128;
static Sample train_set[train_cnt], test_set[test_cnt];

static Layer *l_c1, *l_s1, *l_f;
static float *d_input, *d_err;
static unsigned int *d_labels;

static void forward(const Sample *samples, int n)
{
    std::vector<float> images(n * 196);
    std::vector<unsigned int> labels(n);
    for (int i = 0; i < n; ++i) {
        for (int p = 0; p < 196; ++p)
            images[i * 196 + p] = samples[i].image[p];
        labels[i] = samples[i].label;
    }
    cudaMemcpy(d_input, images.data(), sizeof(float) * n * 196, cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels.data(), sizeof(unsigned int) * n, cudaMemcpyHostToDevice);

    conv_forward(d_input, *l_c1, n);
    pool_forward(*l_c1, *l_s1, n);
    fc_forward(l_s1->output, l_s1->O, *l_f, n);
}

static void backward(int n)
{
    loss_grad(*l_f, d_labels, d_err, n);
    fc_backward(*l_f, l_s1->output, l_s1->d_output, l_s1->O, n);
    pool_backward(*l_s1, *l_c1, n);
    conv_backward(*l_c1, d_input, n);
}

static double test()
{
    int wrong = 0;
    std::vector<float> out(batch_size * 4);
    for (int b = 0; b < test_cnt; b += batch_size) {
        forward(test_set + b, batch_size);
        cudaMemcpy(out.data(), l_f->output, out.size() * sizeof(float), cudaMemcpyDeviceToHost);
        for (int i = 0; i < batch_size; ++i) {
            unsigned best = 0;
            for (unsigned c = 1; c < 4; ++c)
                if (out[i * 4 + c] > out[i * 4 + best])
                    best = c;
            wrong += best != test_set[b + i].label;
        }
    }
    return 100.0 * wrong / test_cnt;
}

int main()
{
    srand(1);
    load_shapes(train_set, train_cnt, 11);
    load_shapes(test_set, test_cnt, 12);
    l_c1 = new Layer(5 * 5, 6, 6 * 10 * 10, batch_size);
    l_s1 = new Layer(0, 0, 6 * 5 * 5, batch_size);
    l_f = new Layer(6 * 5 * 5, 4, 4, batch_size);
    cudaMalloc(&d_input, sizeof(float) * batch_size * 196);
    cudaMalloc(&d_labels, sizeof(unsigned int) * batch_size);
    cudaMalloc(&d_err, sizeof(float) * batch_size);

    for (int iter = 0; iter < 6; ++iter) {
        double err = 0;
        for (int b = 0; b < train_cnt; b += batch_size) {
            forward(&train_set[b], batch_size);
            backward(batch_size);
            apply_grad(*l_f, dt, batch_size);
            apply_grad(*l_c1, dt, batch_size);
            float h_err[batch_size];
            cudaMemcpy(h_err, d_err, sizeof(h_err), cudaMemcpyDeviceToHost);
            for (float e : h_err)
                err += e;
        }
        fprintf(stdout, "iteration %d, loss: %e\n", iter, err / train_cnt);
        if (iter % 2 == 1)
            fprintf(stdout, "Error rate on test set: %.2lf%%\n", test());
    }
    delete l_c1;
    delete l_s1;
    delete l_f;
    return 0;
}

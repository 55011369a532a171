#include "layer.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef struct {
    float data[16][16];
    unsigned int label;
} image_data;

static image_data *train_set, *test_set;
static unsigned int train_cnt, test_cnt;
static float *d_images;
static unsigned int *d_labels;

static Layer *l_c1, *l_s1, *l_f;

static int loaddata(image_data **data, unsigned int *cnt, unsigned int n)
{
    static float strokes[10][16][16];
    static bool init = false;
    if (!init) {
        for (int c = 0; c < 10; ++c)
            for (int s = 0; s < 4; ++s) {
                int y = 2 + rand() % 12, x = 2 + rand() % 12, dy = rand() % 3 - 1, dx = dy ? rand() % 3 - 1 : 1;
                for (int k = 0; k < 9; ++k, y += dy, x += dx)
                    if (y >= 0 && y < 16 && x >= 0 && x < 16)
                        strokes[c][y][x] = 1;
            }
        init = true;
    }
    *data = (image_data *)malloc(sizeof(image_data) * n);
    for (unsigned int i = 0; i < n; ++i) {
        (*data)[i].label = rand() % 10;
        for (int y = 0; y < 16; ++y)
            for (int x = 0; x < 16; ++x)
                (*data)[i].data[y][x] = strokes[(*data)[i].label][y][x] * 0.8f + 0.2f * rand() / RAND_MAX;
    }
    *cnt = n;
    return 0;
}

static void forward_pass(int n)
{
    fp_c1<<<n, 144>>>(d_images, l_c1->preact, l_c1->weight, l_c1->bias);
    apply_step_function<<<32, 64>>>(l_c1->preact, l_c1->output, l_c1->O * n);
    fp_s1<<<n, 54>>>(l_c1->output, l_s1->preact, l_s1->weight, l_s1->bias);
    apply_step_function<<<32, 64>>>(l_s1->preact, l_s1->output, l_s1->O * n);
    fp_f<<<n, 10>>>(l_s1->output, l_f->preact, l_f->weight, l_f->bias);
    apply_step_function<<<32, 64>>>(l_f->preact, l_f->output, l_f->O * n);
}

static void back_pass(int n)
{
    l_f->bp_clear();
    l_s1->bp_clear();
    l_c1->bp_clear();

    bp_f<<<n, 54>>>(l_f->d_weight, l_f->d_bias, l_f->d_preact, l_s1->output);
    bp_output_s1<<<n, 54>>>(l_s1->d_output, l_f->weight, l_f->d_preact);
    bp_preact<<<32, 64>>>(l_s1->d_preact, l_s1->d_output, l_s1->preact, l_s1->O * n);
    bp_weight_s1<<<n, 54>>>(l_s1->d_weight, l_s1->d_bias, l_s1->d_preact, l_c1->output);
    bp_output_c1<<<n, 144>>>(l_c1->d_output, l_s1->weight, l_s1->d_preact);
    bp_preact<<<32, 64>>>(l_c1->d_preact, l_c1->d_output, l_c1->preact, l_c1->O * n);
    bp_weight_c1<<<n, 150>>>(l_c1->d_weight, l_c1->d_bias, l_c1->d_preact, d_images);

    Layer *layers[] = {l_f, l_s1, l_c1};
    for (Layer *l : layers) {
        apply_grad<<<32, 64>>>(l->weight, l->d_weight, l->M * l->N);
        apply_grad<<<32, 64>>>(l->bias, l->d_bias, l->N);
    }
}

static void load_batch(const image_data *set, int first, int n)
{
    static float images[BATCH][256];
    static unsigned int labels[BATCH];
    for (int i = 0; i < n; ++i) {
        memcpy(images[i], set[first + i].data, sizeof(images[i]));
        labels[i] = set[first + i].label;
    }
    cudaMemcpy(d_images, images, sizeof(float) * 256 * n, cudaMemcpyHostToDevice);
    cudaMemcpy(d_labels, labels, sizeof(unsigned int) * n, cudaMemcpyHostToDevice);
}

static void learn()
{
    for (int iter = 0; iter < 4; ++iter) {
        float err = 0.0f;
        for (unsigned int i = 0; i < train_cnt; i += BATCH) {
            load_batch(train_set, i, BATCH);
            forward_pass(BATCH);
            makeError<<<(10 * BATCH + 63) / 64, 64>>>(l_f->d_preact, l_f->output, d_labels, 10 * BATCH);
            float h_err[10 * BATCH], s = 0;
            cudaMemcpy(h_err, l_f->d_preact, sizeof(h_err), cudaMemcpyDeviceToHost);
            for (int k = 0; k < 10 * BATCH; ++k)
                s += h_err[k] * h_err[k];
            err += sqrtf(s / BATCH);
            back_pass(BATCH);
        }
        printf("error: %e\n", err / (train_cnt / BATCH));
    }
}

static void test()
{
    int error = 0;
    for (unsigned int i = 0; i < test_cnt; i += BATCH) {
        float res[10 * BATCH];
        load_batch(test_set, i, BATCH);
        forward_pass(BATCH);
        cudaMemcpy(res, l_f->output, sizeof(res), cudaMemcpyDeviceToHost);
        for (int k = 0; k < BATCH; ++k) {
            unsigned int max = 0;
            for (unsigned int c = 1; c < 10; ++c)
                if (res[k * 10 + c] > res[k * 10 + max])
                    max = c;
            error += max != test_set[i + k].label;
        }
    }
    printf("Error Rate: %.2lf%%\n", double(error) / double(test_cnt) * 100.0);
}

int main()
{
    srand(3);
    loaddata(&train_set, &train_cnt, 1280);
    loaddata(&test_set, &test_cnt, 128);
    l_c1 = new Layer(25, 6, 6 * 144);
    l_s1 = new Layer(16, 1, 54);
    l_f = new Layer(54, 10, 10);
    cudaMalloc(&d_images, sizeof(float) * 256 * BATCH);
    cudaMalloc(&d_labels, sizeof(unsigned int) * BATCH);
    learn();
    test();
    delete l_c1; delete l_s1; delete l_f;
    cudaFree(d_images); cudaFree(d_labels);
    return 0;
}

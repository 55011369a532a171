#include "layer.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

struct mnist_data {
    float data[IMG][IMG];
    unsigned int label;
};

static mnist_data *train_set, *test_set;
static unsigned int train_cnt = 960, test_cnt = 64;
static const unsigned int batch_size = 32;

static Layer l_input = Layer(0, 0, IMG * IMG);
static Layer l_c1 = Layer(5 * 5, MAPS, CONV * CONV * MAPS);
static Layer l_s1 = Layer(2 * 2, 1, POOL * POOL * MAPS);
static Layer l_f = Layer(POOL * POOL * MAPS, CLASSES, CLASSES);

// strokes: every class is a few line segments, drawn with jitter
static void draw(mnist_data *s, unsigned int label)
{
    static const int seg[CLASSES][4] = {{0, 1, 2, 3}, {1, 1, 2, 2}, {0, 4, 3, 5}, {0, 4, 2, 3}, {5, 4, 1, 2},
                                        {0, 5, 4, 2}, {5, 3, 4, 4}, {0, 1, 1, 6}, {6, 6, 4, 0}, {0, 6, 5, 1}};
    s->label = label;
    for (int y = 0; y < IMG; ++y)
        for (int x = 0; x < IMG; ++x)
            s->data[y][x] = 0.15f * rand() / RAND_MAX;
    const int jx = rand() % 2, jy = rand() % 2;
    for (int k = 0; k < 4; ++k)
        for (int t = 0; t < 6; ++t) {
            int x = 2 + jx, y = 2 + jy;
            switch (seg[label][k]) {
            case 0: x += t; break;
            case 1: x += 6; y += t / 2; break;
            case 2: x += 6; y += 4 + t / 2; break;
            case 3: x += t; y += 7; break;
            case 4: x += t; y += 3; break;
            case 5: y += t / 2; break;
            default: x += t; y += t; break;
            }
            s->data[y][x] = 1.0f;
        }
}

static inline void loaddata()
{
    train_set = new mnist_data[train_cnt];
    test_set = new mnist_data[test_cnt];
    for (unsigned int i = 0; i < train_cnt; ++i)
        draw(&train_set[i], rand() % CLASSES);
    for (unsigned int i = 0; i < test_cnt; ++i)
        draw(&test_set[i], i % CLASSES);
}

static void forward_pass(float data[IMG][IMG])
{
    l_input.clear();
    l_c1.clear();
    l_s1.clear();
    l_f.clear();

    l_input.setOutput((float *)data);

    fp_preact_c1<<<MAPS, dim3(CONV, CONV)>>>(l_input.output, l_c1.preact, l_c1.weight, l_c1.bias);
    apply_step_function<<<6, 64>>>(l_c1.preact, l_c1.output, l_c1.O);

    fp_preact_s1<<<MAPS, dim3(POOL, POOL)>>>(l_c1.output, l_s1.preact, l_s1.weight, l_s1.bias);
    apply_step_function<<<2, 64>>>(l_s1.preact, l_s1.output, l_s1.O);

    fp_preact_f<<<1, CLASSES>>>(l_s1.output, l_f.preact, l_f.weight, l_f.bias);
    apply_step_function<<<1, 32>>>(l_f.preact, l_f.output, l_f.O);
}

static void back_pass()
{
    bp_weight_f<<<CLASSES, MAPS * POOL * POOL>>>(l_f.d_weight, l_f.d_bias, l_f.d_preact, l_s1.output);

    bp_output_s1<<<1, MAPS * POOL * POOL>>>(l_s1.d_output, l_f.weight, l_f.d_preact);
    bp_preact<<<2, 64>>>(l_s1.d_preact, l_s1.d_output, l_s1.preact, l_s1.O);
    bp_weight_s1<<<MAPS, dim3(POOL, POOL)>>>(l_s1.d_weight, l_s1.d_bias, l_s1.d_preact, l_c1.output);

    bp_output_c1<<<MAPS, dim3(CONV, CONV)>>>(l_c1.d_output, l_s1.weight, l_s1.d_preact);
    bp_preact<<<6, 64>>>(l_c1.d_preact, l_c1.d_output, l_c1.preact, l_c1.O);
    bp_weight_c1<<<MAPS, dim3(5, 5)>>>(l_c1.d_weight, l_c1.d_bias, l_c1.d_preact, l_input.output);
}

static void update(Layer &l, int count)
{
    apply_grad<<<(l.M * l.N + 63) / 64, 64>>>(l.weight, l.d_weight, l.M * l.N, count);
    apply_grad<<<1, 64>>>(l.bias, l.d_bias, l.N, count);
}

static unsigned int classify(float data[IMG][IMG])
{
    float res[CLASSES];
    forward_pass(data);
    unsigned int max = 0;
    cudaMemcpy(res, l_f.output, sizeof(float) * CLASSES, cudaMemcpyDeviceToHost);
    for (int i = 1; i < CLASSES; ++i)
        if (res[max] < res[i])
            max = i;
    return max;
}

static void learn()
{
    float tmp[CLASSES];
    int iter = 6;
    fprintf(stdout, "Learning\n");

    while (iter-- > 0) {
        float err = 0.0f;
        for (unsigned int b = 0; b < train_cnt; b += batch_size) {
            l_c1.zero_grad();
            l_s1.zero_grad();
            l_f.zero_grad();
            for (unsigned int i = b; i < b + batch_size; ++i) {
                forward_pass(train_set[i].data);

                l_f.bp_clear();
                l_s1.bp_clear();
                l_c1.bp_clear();

                // cross entropy of logistic units: the error is the derivative of the preactivation
                makeError<<<1, CLASSES>>>(l_f.d_preact, l_f.output, train_set[i].label, CLASSES);
                cudaMemcpy(tmp, l_f.d_preact, sizeof(tmp), cudaMemcpyDeviceToHost);
                for (int k = 0; k < CLASSES; ++k)
                    err += tmp[k] * tmp[k];

                back_pass();
            }
            update(l_f, batch_size);
            update(l_s1, batch_size);
            update(l_c1, batch_size);
        }
        fprintf(stdout, "error: %e\n", err / train_cnt);
    }
}

static void test()
{
    int error = 0;
    for (unsigned int i = 0; i < test_cnt; ++i)
        if (classify(test_set[i].data) != test_set[i].label)
            ++error;
    fprintf(stdout, "Error Rate: %.2lf%%\n", double(error) / double(test_cnt) * 100.0);
}

int main(int argc, const char **argv)
{
    srand(7);
    loaddata();
    learn();
    test();
    return 0;
}

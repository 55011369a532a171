/* Faults in woven cloth, from two rows of grey values: none, a hole, a thick thread. */
#include "dark.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH  24
#define ROWS   2
#define KINDS  3
#define PIECES 352
#define BATCH  32

struct data {
    float **X, **y;
};

static data make_cloth(void)
{
    data d;
    d.X = (float **)calloc(PIECES, sizeof(float *));
    d.y = (float **)calloc(PIECES, sizeof(float *));
    for (int i = 0; i < PIECES; ++i) {
        int kind = rand() % KINDS, at = 3 + rand() % (WIDTH - 8);
        d.X[i] = (float *)calloc(WIDTH * ROWS, sizeof(float));
        d.y[i] = (float *)calloc(KINDS, sizeof(float));
        d.y[i][kind] = 1;
        for (int r = 0; r < ROWS; ++r)
            for (int x = 0; x < WIDTH; ++x) {
                float v = (x + r) % 2 ? .5f : -.5f;
                if (kind == 1 && x >= at && x < at + 3) v = -1;
                if (kind == 2 && x >= at && x < at + 2) v = 1;
                d.X[i][r * WIDTH + x] = v + rand_uniform(-.45f, .45f);
            }
    }
    return d;
}

static void get_next_batch(data d, int n, int offset, float *X, float *y)
{
    for (int j = 0; j < n; ++j) {
        int index = offset + j;
        memcpy(X + j * WIDTH * ROWS, d.X[index], WIDTH * ROWS * sizeof(float));
        memcpy(y + j * KINDS, d.y[index], KINDS * sizeof(float));
    }
}

int main(void)
{
    srand(2222222);
    data train = make_cloth();
    network net = make_network(4, BATCH);
    net.layers[0] = make_conv1d_layer(BATCH, WIDTH, ROWS, 6, 5);
    net.layers[1] = make_conv1d_layer(BATCH, 20, 6, 4, 4);
    net.layers[2] = make_connected_layer(BATCH, 17 * 4, KINDS);
    net.layers[3] = make_softmax_layer(BATCH, KINDS);
    net.momentum = .9f;
    net.decay = .0005f;
    net.input = (float *)calloc(BATCH * WIDTH * ROWS, sizeof(float));
    net.truth = (float *)calloc(BATCH * KINDS, sizeof(float));
    net.input_gpu = cuda_make_array(0, BATCH * WIDTH * ROWS);
    net.truth_gpu = cuda_make_array(0, BATCH * KINDS);

    float avg_loss = -1;
    for (int i = 0; i < 110; ++i) {
        net.learning_rate = i < 80 ? .02f : .004f;
        get_next_batch(train, BATCH, i * BATCH % PIECES, net.input, net.truth);
        float loss = train_network_datum(&net);
        avg_loss = avg_loss < 0 ? loss : avg_loss * .9f + loss * .1f;
        if ((i + 1) % 10 == 0)
            printf("%d, %.3f: %f, %f avg, %f rate\n", net.seen, (float)net.seen / PIECES, loss, avg_loss, net.learning_rate);
    }
    return 0;
}

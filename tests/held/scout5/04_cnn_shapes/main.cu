#include "cnn.h"
#include <stdio.h>
#include <stdlib.h>

#define TRAIN_N 960
#define TEST_N 192
#define BATCH 96
#define EPOCHS 8

static void load_batch(Net *net, const float *images, const int *labels, int start, int n)
{
    cudaMemcpy(net->image, images + start * IMG * IMG, n * IMG * IMG * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(net->label, labels + start, n * sizeof(int), cudaMemcpyHostToDevice);
}

static float evaluate(Net *net, const float *images, const int *labels)
{
    int correct = 0;
    for (int i = 0; i < TEST_N; i += BATCH) {
        load_batch(net, images, labels, i, BATCH);
        net_forward(net, BATCH);
        net_loss(net, BATCH, &correct);
    }
    return 100.0f * correct / TEST_N;
}

int main(void)
{
    float *train_x = (float *)malloc(TRAIN_N * IMG * IMG * sizeof(float));
    float *test_x = (float *)malloc(TEST_N * IMG * IMG * sizeof(float));
    int *train_y = (int *)malloc(TRAIN_N * sizeof(int)), *test_y = (int *)malloc(TEST_N * sizeof(int));
    make_shapes(train_x, train_y, TRAIN_N, 1);
    make_shapes(test_x, test_y, TEST_N, 99);

    Net net;
    srand(3);
    net_create(&net, BATCH);
    float lr = 0.25f;
    for (int e = 0; e < EPOCHS; e++) {
        float loss = 0;
        int correct = 0;
        for (int i = 0; i < TRAIN_N; i += BATCH) {
            load_batch(&net, train_x, train_y, i, BATCH);
            net_forward(&net, BATCH);
            net_backward(&net, BATCH);
            net_update(&net, lr);
            loss += net_loss(&net, BATCH, &correct);
        }
        printf("epoch %d: loss %.4f train %.1f%%", e, loss / (TRAIN_N / BATCH), 100.0f * correct / TRAIN_N);
        if (e % 2 == 1)
            printf(" test %.1f%%", evaluate(&net, test_x, test_y));
        printf("\n");
    }
    net_destroy(&net);
    free(train_x); free(test_x); free(train_y); free(test_y);
    return 0;
}

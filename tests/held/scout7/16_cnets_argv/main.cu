#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data.h"
#include "net.h"

static int find_int_arg(int argc, char **argv, const char *arg, int def)
{
    for (int i = 1; i + 1 < argc; ++i)
        if (!strcmp(argv[i], arg)) return atoi(argv[i + 1]);
    return def;
}

int main(int argc, char **argv)
{
    int batch = find_int_arg(argc, argv, "-batch", 64);
    int max_batches = find_int_arg(argc, argv, "-iters", 160);
    srand(2222222);
    data train = make_rings(1500, 3, 4);
    data valid = make_rings(batch, 3, 4);

    network *net = make_network(3, batch);
    net->learning_rate = .1f;
    net->momentum = .9f;
    net->decay = .0001f;
    net->layers[0] = make_connected_layer(batch, train.in, 40, ACT_RELU);
    net->layers[1] = make_connected_layer(batch, 40, 24, ACT_SIGMOID);
    net->layers[2] = make_connected_layer(batch, 24, 3, ACT_SOFTMAX);
    set_input(net, train.in, 3);

    float *X = (float *)calloc(batch * train.in, sizeof(float));
    float *y = (float *)calloc(batch * train.out, sizeof(float));
    float avg_loss = -1;
    for (int i = 0; i < max_batches; ++i) {
        if (i == 120) net->learning_rate *= .1f;
        get_random_batch(train, batch, X, y);
        float loss = train_network(net, X, y);
        avg_loss = avg_loss < 0 ? loss : avg_loss * .9f + loss * .1f;
        if (i % 20 == 0) {
            float *p = network_predict(net, valid.X);
            int right = 0;
            for (int b = 0; b < batch; ++b) {
                int best = 0;
                for (int c = 1; c < 3; ++c)
                    if (p[b * 3 + c] > p[b * 3 + best]) best = c;
                right += valid.y[b * 3 + best] > 0;
            }
            free(p);
            printf("%d: loss %f, %f avg, valid %.3f\n", i, loss, avg_loss, (float)right / batch);
        }
    }
    printf("final avg loss %f\n", avg_loss);
    free_network(net);
    free(X);
    free(y);
    return 0;
}

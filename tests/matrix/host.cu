/*
 * host.cu - a trainer whose weights, gradients and optimizer are on the host: in each step it copies weights to the
 * device, computes there, copies gradients back, asynchronously, and waits for them only behind DDP_STEP. Weights lie
 * in pageable memory; gradients of weights in pinned, those of biases in pageable memory.
 */
#include "perceptron.h"

/* The host's own. */
struct on_host {
    float *weight, *bias, *weight_gradient, *bias_gradient, *momentum;
};

static void
layer_create(struct dense *dense, struct on_host *host, int number)
{
    dense_create_on_device(dense, WIDTH, WIDTH);
    host->weight = (float *)calloc(WIDTH * WIDTH, sizeof(float));
    host->bias = (float *)calloc(WIDTH, sizeof(float));
    host->weight_gradient = (float *)pinned_allocate(WIDTH * WIDTH * sizeof(float));
    host->bias_gradient = (float *)calloc(WIDTH, sizeof(float));
    host->momentum = (float *)calloc(WIDTH * WIDTH, sizeof(float));
    for (int i = 0; i < WIDTH * WIDTH; ++i)
        host->weight[i] = 2.0f * noise(1000 + (unsigned)number, (unsigned)i) / sqrtf((float)WIDTH);
    DDP_PARAMETER(host->weight, WIDTH * WIDTH, DDP_FLOAT32);
    DDP_PARAMETER(host->bias, WIDTH, DDP_FLOAT32);
    DDP_GRADIENT(host->weight_gradient, WIDTH * WIDTH, DDP_FLOAT32);
    DDP_GRADIENT(host->bias_gradient, WIDTH, DDP_FLOAT32);
    record_add("w", number, dense->weight, WIDTH * WIDTH);
    record_add("b", number, dense->bias, WIDTH);
}

static void
upload(const struct dense *dense, const struct on_host *host, cudaStream_t stream)
{
    device_upload(dense->weight, host->weight, WIDTH * WIDTH * sizeof(float), stream);
    device_upload(dense->bias, host->bias, WIDTH * sizeof(float), stream);
}

static void
update(const struct on_host *host, float rate)
{
    for (int i = 0; i < WIDTH * WIDTH; ++i) {
        host->momentum[i] = 0.9f * host->momentum[i] + host->weight_gradient[i];
        host->weight[i] -= rate * host->momentum[i];
    }
    for (int i = 0; i < WIDTH; ++i)
        host->bias[i] -= rate * host->bias_gradient[i];
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    static struct on_host hosts[LAYERS];
    options_parse(argc, argv);
    device_open();
    cudaStream_t stream = stream_create();
    items_create(&net.items, (size_t)(options.steps * options.batch), WIDTH, WIDTH);
    for (int l = 0; l < LAYERS; ++l) {
        layer_create(&net.layers[l], &hosts[l], l);
        upload(&net.layers[l], &hosts[l], stream);
    }

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        size_t first_item = item_of(step, 0, 1, first);
        items_load(&net.items, first_item, count, stream);
        perceptron_forward(&net, first_item, (int)count, stream);
        perceptron_backward(&net, first_item, (int)count, 0.0f, 1.0f, stream);
        for (int l = 0; l < LAYERS; ++l) /* each of these waits, for its memory is pageable */
            device_download_later(hosts[l].bias_gradient, net.layers[l].bias_gradient, WIDTH * sizeof(float), stream);
        for (int l = 0; l < LAYERS; ++l)
            device_download_later(hosts[l].weight_gradient, net.layers[l].weight_gradient,
                                  WIDTH * WIDTH * sizeof(float), stream);
        DDP_STEP(stream);
        stream_wait(stream);
        for (int l = 0; l < LAYERS; ++l) {
            update(&hosts[l], 0.2f);
            upload(&net.layers[l], &hosts[l], stream);
        }
        record_step(step, stream);
    }
    record_save();
    return 0;
}

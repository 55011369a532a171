/*
 * model.c - see model.h.
 *
 * cuBLAS stores matrices column by column; a matrix stored row by row is its transpose there. So each product below is
 * written for the transposes: y = x W becomes y' = W' x'.
 */
#include "model.h"

#include "common/parameter_file.h"
#include "common/random.h"
#include "cuda_check.h"
#include "data.h"
#include "kernels.h"

#include <math.h>
#include <string.h>

static const int WIDTHS[LAYERS + 1] = {IMAGE_PIXELS, 128, 64, CLASSES};
static const float MOMENTUM = 0.9f;

static float *
allocate_floats(size_t count)
{
    void *memory;
    CHECK_CUDA(cudaMalloc(&memory, count * sizeof(float)));
    CHECK_CUDA(cudaMemset(memory, 0, count * sizeof(float)));
    return memory;
}

static void
tensor_create(struct tensor *tensor, char kind, int layer, size_t count)
{
    snprintf(tensor->name, sizeof(tensor->name), "%c%d", kind, layer + 1);
    tensor->count = count;
    tensor->value = allocate_floats(count);
    tensor->gradient = allocate_floats(count);
    tensor->velocity = allocate_floats(count);
}

/* Uniform with variance 2 / inputs (K. He et al., "Delving deep into rectifiers", ICCV 2015, section 2.2). */
static void
initialise_weights(struct tensor *weights, int inputs, struct random *random)
{
    float *values = malloc(weights->count * sizeof(float));
    if (values == NULL) {
        fprintf(stderr, "digits: out of host memory\n");
        exit(1);
    }
    float limit = sqrtf(6.0f / (float)inputs);
    for (size_t i = 0; i < weights->count; ++i)
        values[i] = limit * (2.0f * random_uniform(random) - 1.0f);
    CHECK_CUDA(cudaMemcpy(weights->value, values, weights->count * sizeof(float), cudaMemcpyHostToDevice));
    free(values);
}

void
model_create(struct model *model, size_t max_rows, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    model->max_rows = max_rows;
    CHECK_CUBLAS(cublasCreate(&model->blas));

    struct random random = random_seeded(seed);
    for (int i = 0; i < LAYERS; ++i) {
        struct layer *layer = &model->layers[i];
        layer->inputs = WIDTHS[i];
        layer->outputs = WIDTHS[i + 1];
        layer->weights = &model->tensors[2 * i];
        layer->bias = &model->tensors[2 * i + 1];
        tensor_create(layer->weights, 'W', i, (size_t)layer->inputs * (size_t)layer->outputs);
        tensor_create(layer->bias, 'b', i, (size_t)layer->outputs);
        initialise_weights(layer->weights, layer->inputs, &random);
        layer->output = allocate_floats(max_rows * (size_t)layer->outputs);
        layer->doutput = allocate_floats(max_rows * (size_t)layer->outputs);
    }
    model->input = allocate_floats(max_rows * IMAGE_PIXELS);
    model->losses = allocate_floats(max_rows);
    model->loss = allocate_floats(1);
    CHECK_CUDA(cudaMalloc((void **)&model->labels, max_rows * sizeof(int)));
}

void
model_destroy(struct model *model)
{
    for (int i = 0; i < TENSORS; ++i) {
        CHECK_CUDA(cudaFree(model->tensors[i].value));
        CHECK_CUDA(cudaFree(model->tensors[i].gradient));
        CHECK_CUDA(cudaFree(model->tensors[i].velocity));
    }
    for (int i = 0; i < LAYERS; ++i) {
        CHECK_CUDA(cudaFree(model->layers[i].output));
        CHECK_CUDA(cudaFree(model->layers[i].doutput));
    }
    CHECK_CUDA(cudaFree(model->input));
    CHECK_CUDA(cudaFree(model->labels));
    CHECK_CUDA(cudaFree(model->losses));
    CHECK_CUDA(cudaFree(model->loss));
    CHECK_CUBLAS(cublasDestroy(model->blas));
}

void
model_input(struct model *model, const float *pixels, const int *labels, size_t rows)
{
    CHECK_CUDA(cudaMemcpy(model->input, pixels, rows * IMAGE_PIXELS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(model->labels, labels, rows * sizeof(int), cudaMemcpyHostToDevice));
}

void
model_forward(struct model *model, size_t rows)
{
    const float one = 1.0f, zero = 0.0f;
    const float *x = model->input;
    int n = (int)rows;
    for (int i = 0; i < LAYERS; ++i) {
        struct layer *layer = &model->layers[i];
        CHECK_CUBLAS(cublasSgemm(model->blas, CUBLAS_OP_N, CUBLAS_OP_N, layer->outputs, n, layer->inputs, &one,
                                 layer->weights->value, layer->outputs, x, layer->inputs, &zero, layer->output,
                                 layer->outputs));
        bias_add(layer->output, layer->bias->value, n, layer->outputs);
        if (i + 1 < LAYERS)
            relu_forward(layer->output, layer->output, n * layer->outputs);
        x = layer->output;
    }
    struct layer *last = &model->layers[LAYERS - 1];
    softmax_cross_entropy(model->losses, last->doutput, last->output, model->labels, n, last->outputs);
}

void
model_backward(struct model *model, size_t rows)
{
    const float one = 1.0f, zero = 0.0f;
    int n = (int)rows;
    for (int i = LAYERS - 1; i >= 0; --i) {
        struct layer *layer = &model->layers[i];
        const float *x = i > 0 ? model->layers[i - 1].output : model->input;
        CHECK_CUBLAS(cublasSgemm(model->blas, CUBLAS_OP_N, CUBLAS_OP_T, layer->outputs, layer->inputs, n, &one,
                                 layer->doutput, layer->outputs, x, layer->inputs, &zero, layer->weights->gradient,
                                 layer->outputs));
        column_sums(layer->bias->gradient, layer->doutput, n, layer->outputs, 1.0f);
        if (i > 0) {
            float *dx = model->layers[i - 1].doutput;
            CHECK_CUBLAS(cublasSgemm(model->blas, CUBLAS_OP_T, CUBLAS_OP_N, layer->inputs, n, layer->outputs, &one,
                                     layer->weights->value, layer->outputs, layer->doutput, layer->outputs, &zero, dx,
                                     layer->inputs));
            relu_backward(dx, dx, x, n * layer->inputs);
        }
    }
}

void
model_update(struct model *model, float rate)
{
    for (int i = 0; i < TENSORS; ++i) {
        struct tensor *tensor = &model->tensors[i];
        sgd_momentum(tensor->value, tensor->velocity, tensor->gradient, rate, MOMENTUM, (int)tensor->count);
    }
}

float
model_loss(struct model *model, size_t rows)
{
    float loss;
    column_sums(model->loss, model->losses, (int)rows, 1, 1.0f / (float)rows);
    CHECK_CUDA(cudaMemcpy(&loss, model->loss, sizeof(loss), cudaMemcpyDeviceToHost));
    return loss;
}

size_t
model_correct(struct model *model, const int *labels, size_t rows)
{
    float *logits = malloc(rows * CLASSES * sizeof(float));
    if (logits == NULL) {
        fprintf(stderr, "digits: out of host memory\n");
        exit(1);
    }
    CHECK_CUDA(
        cudaMemcpy(logits, model->layers[LAYERS - 1].output, rows * CLASSES * sizeof(float), cudaMemcpyDeviceToHost));
    size_t correct = 0;
    for (size_t row = 0; row < rows; ++row) {
        int best = 0;
        for (int c = 1; c < CLASSES; ++c) {
            if (logits[row * CLASSES + (size_t)c] > logits[row * CLASSES + (size_t)best])
                best = c;
        }
        correct += best == labels[row];
    }
    free(logits);
    return correct;
}

void
model_save(struct model *model, const char *path, int rank)
{
    if (rank != 0 && strstr(path, "%d") == NULL)
        return;

    struct parameter parameters[TENSORS];
    for (int i = 0; i < TENSORS; ++i) {
        struct tensor *tensor = &model->tensors[i];
        snprintf(parameters[i].name, sizeof(parameters[i].name), "%s", tensor->name);
        parameters[i].count = tensor->count;
        parameters[i].values = malloc(tensor->count * sizeof(float));
        if (parameters[i].values == NULL) {
            fprintf(stderr, "digits: out of host memory\n");
            exit(1);
        }
        CHECK_CUDA(
            cudaMemcpy(parameters[i].values, tensor->value, tensor->count * sizeof(float), cudaMemcpyDeviceToHost));
    }
    if (parameter_file_write(path, rank, parameters, TENSORS) != 0)
        exit(1); /* parameter_file_write() has said why */
    for (int i = 0; i < TENSORS; ++i)
        free(parameters[i].values);
}

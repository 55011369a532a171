/*
 * model.c - see model.h.
 *
 * cuBLAS stores matrices column by column; a matrix stored row by row is its transpose there. So each product below is
 * written for the transposes: y = x W becomes y' = W' x'.
 */
#include "model.h"

#include "common/parameter_file.h"
#include "cuda_check.h"

#include <math.h>
#include <string.h>

static const float ONE = 1.0f, ZERO = 0.0f;

static void *
allocate(size_t count, size_t bytes)
{
    void *memory;
    CHECK_CUDA(cudaMalloc(&memory, count * bytes));
    CHECK_CUDA(cudaMemset(memory, 0, count * bytes));
    return memory;
}

static float *
allocate_floats(size_t count)
{
    return allocate(count, sizeof(float));
}

static void *
host_allocate(size_t count, size_t bytes)
{
    void *memory = malloc(count * bytes);
    if (memory == NULL) {
        fprintf(stderr, "chargpt: out of host memory\n");
        exit(1);
    }
    return memory;
}

static void
create_parameters(struct model *model, uint64_t seed)
{
    const size_t count = model->layout.count;
    model->values = allocate_floats(count);
    model->gradients = allocate_floats(count);
    model->moments1 = allocate_floats(count);
    model->moments2 = allocate_floats(count);
    model->value_at = layout_tensors(&model->layout, model->values);
    model->gradient_at = layout_tensors(&model->layout, model->gradients);

    float *initial = host_allocate(count, sizeof(float));
    layout_initialise(&model->layout, initial, seed);
    CHECK_CUDA(cudaMemcpy(model->values, initial, count * sizeof(float), cudaMemcpyHostToDevice));
    free(initial);
}

static void
create_block_state(struct block_state *state, size_t rows, size_t width, size_t score_count)
{
    state->input = allocate_floats(rows * width);
    state->mean1 = allocate_floats(rows);
    state->scale1 = allocate_floats(rows);
    state->norm1 = allocate_floats(rows * width);
    state->qkv = allocate_floats(rows * 3 * width);
    state->shares = allocate_floats(score_count);
    state->mixed = allocate_floats(rows * width);
    state->middle = allocate_floats(rows * width);
    state->mean2 = allocate_floats(rows);
    state->scale2 = allocate_floats(rows);
    state->norm2 = allocate_floats(rows * width);
    state->expanded = allocate_floats(rows * 4 * width);
    state->active = allocate_floats(rows * 4 * width);
}

void
model_create(struct model *model, const struct shape *shape, size_t max_sequences, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    layout_create(&model->layout, shape);
    model->max_sequences = max_sequences;
    CHECK_CUBLAS(cublasCreate(&model->blas));
    create_parameters(model, seed);

    const size_t context = (size_t)shape->context, width = (size_t)shape->width, rows = max_sequences * context;
    const size_t score_count = rows * (size_t)shape->heads * context, vocabulary = (size_t)shape->vocabulary;
    for (int i = 0; i < shape->layers; ++i)
        create_block_state(&model->blocks[i], rows, width, score_count);
    model->output = allocate_floats(rows * width);
    model->mean = allocate_floats(rows);
    model->scale = allocate_floats(rows);
    model->norm = allocate_floats(rows * width);
    model->logits = allocate_floats(rows * vocabulary);
    model->losses = allocate_floats(rows);
    model->dstream = allocate_floats(rows * width);
    model->dnorm = allocate_floats(rows * width);
    model->dgains = allocate_floats(rows * width);
    model->dwide = allocate_floats(rows * 4 * width);
    model->dshares = allocate_floats(score_count);
    model->row_sums = allocate_floats(rows * 2);
    model->gradient_norm = allocate_floats(1);
    model->inputs = allocate(rows, sizeof(int));
    model->targets = allocate(rows, sizeof(int));
    model->by_token = allocate(rows, sizeof(int));
    model->token_starts = allocate(vocabulary + 1, sizeof(int));
    model->host_order = host_allocate(rows + 2 * vocabulary + 1, sizeof(int));

    model->ones = allocate_floats(rows);
    float *ones = host_allocate(rows, sizeof(float));
    for (size_t i = 0; i < rows; ++i)
        ones[i] = 1.0f;
    CHECK_CUDA(cudaMemcpy(model->ones, ones, rows * sizeof(float), cudaMemcpyHostToDevice));
    free(ones);
}

void
model_destroy(struct model *model)
{
    for (int i = 0; i < model->layout.shape.layers; ++i) {
        struct block_state *state = &model->blocks[i];
        void *const memory[] = {state->input,  state->mean1,    state->scale1, state->norm1, state->qkv,
                                state->shares, state->mixed,    state->middle, state->mean2, state->scale2,
                                state->norm2,  state->expanded, state->active};
        for (size_t j = 0; j < sizeof(memory) / sizeof(memory[0]); ++j)
            CHECK_CUDA(cudaFree(memory[j]));
    }
    void *const memory[] = {
        model->values,  model->gradients, model->moments1, model->moments2,     model->output,        model->mean,
        model->scale,   model->norm,      model->logits,   model->losses,       model->dstream,       model->dnorm,
        model->dgains,  model->dwide,     model->dshares,  model->row_sums,     model->gradient_norm, model->inputs,
        model->targets, model->by_token,  model->ones,     model->token_starts,
    };
    for (size_t j = 0; j < sizeof(memory) / sizeof(memory[0]); ++j)
        CHECK_CUDA(cudaFree(memory[j]));
    free(model->host_order);
    CHECK_CUBLAS(cublasDestroy(model->blas));
}

/* Sorts the rows by their input, for embed_backward(). */
static void
sort_rows(struct model *model, const int *inputs, int rows)
{
    const int vocabulary = model->layout.shape.vocabulary;
    int *order = model->host_order, *starts = order + rows, *next = starts + vocabulary + 1;
    memset(starts, 0, sizeof(int) * (size_t)(vocabulary + 1));
    for (int r = 0; r < rows; ++r)
        ++starts[inputs[r] + 1];
    for (int t = 0; t < vocabulary; ++t) {
        starts[t + 1] += starts[t];
        next[t] = starts[t];
    }
    for (int r = 0; r < rows; ++r)
        order[next[inputs[r]]++] = r;
    CHECK_CUDA(cudaMemcpy(model->by_token, order, sizeof(int) * (size_t)rows, cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(model->token_starts, starts, sizeof(int) * (size_t)(vocabulary + 1), cudaMemcpyHostToDevice));
}

void
model_input(struct model *model, const int *inputs, const int *targets, size_t sequences, size_t length)
{
    const size_t bytes = sequences * length * sizeof(int);
    model->sequences = (int)sequences;
    model->length = (int)length;
    CHECK_CUDA(cudaMemcpy(model->inputs, inputs, bytes, cudaMemcpyHostToDevice));
    if (targets != NULL) {
        CHECK_CUDA(cudaMemcpy(model->targets, targets, bytes, cudaMemcpyHostToDevice));
        sort_rows(model, inputs, (int)(sequences * length));
    }
}

/* y[rows][outputs] = x[rows][inputs] w. */
static void
product_forward(struct model *model, float *y, const float *x, const float *w, int rows, int inputs, int outputs)
{
    CHECK_CUBLAS(cublasSgemm(model->blas, CUBLAS_OP_N, CUBLAS_OP_N, outputs, rows, inputs, &ONE, w, outputs, x, inputs,
                             &ZERO, y, outputs));
}

/* dw += x' dy; dx = dy w'. */
static void
product_backward(struct model *model, float *dw, float *dx, const float *dy, const float *x, const float *w, int rows,
                 int inputs, int outputs)
{
    CHECK_CUBLAS(cublasSgemm(model->blas, CUBLAS_OP_N, CUBLAS_OP_T, outputs, inputs, rows, &ONE, dy, outputs, x, inputs,
                             &ONE, dw, outputs));
    CHECK_CUBLAS(cublasSgemm(model->blas, CUBLAS_OP_T, CUBLAS_OP_N, inputs, rows, outputs, &ONE, w, outputs, dy,
                             outputs, &ZERO, dx, inputs));
}

/* sums += the sums of matrix's columns: the gradient of a bias. */
static void
add_column_sums(struct model *model, float *sums, const float *matrix, int rows, int columns)
{
    CHECK_CUBLAS(
        cublasSgemv(model->blas, CUBLAS_OP_N, columns, rows, &ONE, matrix, columns, model->ones, 1, &ONE, sums, 1));
}

/*
 * For all sequences and one head, C = factor op(A) op(B), where A, B and C are parts of buffers with these leading
 * dimensions and distances between sequences.
 */
struct operand {
    cublasOperation_t op;
    const float *at;
    int ld;
    long long stride;
};

static void
product_of_heads(struct model *model, float factor, struct operand a, struct operand b, float *c, int ldc,
                 long long stride, int m, int n, int k)
{
    CHECK_CUBLAS(cublasSgemmStridedBatched(model->blas, a.op, b.op, m, n, k, &factor, a.at, a.ld, a.stride, b.at, b.ld,
                                           b.stride, &ZERO, c, ldc, stride, model->sequences));
}

/* Where the parts of one head begin, and how far apart those of two sequences are. */
struct head {
    int size, length, width;
    size_t channels, scores; /* offsets of the head in a row of the stream, and in shares */
    long long narrow_stride, wide_stride, score_stride;
    float factor;
};

static struct head
head_at(const struct model *model, int h)
{
    const struct shape *shape = &model->layout.shape;
    const int size = shape->width / shape->heads, length = model->length;
    return (struct head){.size = size,
                         .length = length,
                         .width = shape->width,
                         .channels = (size_t)h * (size_t)size,
                         .scores = (size_t)h * (size_t)length * (size_t)length,
                         .narrow_stride = (long long)length * shape->width,
                         .wide_stride = 3LL * length * shape->width,
                         .score_stride = (long long)shape->heads * length * length,
                         .factor = 1.0f / sqrtf((float)size)};
}

static void
attention_forward(struct model *model, struct block_state *state)
{
    const int heads = model->layout.shape.heads, length = model->length;
    for (int h = 0; h < heads; ++h) {
        struct head at = head_at(model, h);
        const float *q = state->qkv + at.channels, *k = q + at.width;
        product_of_heads(model, at.factor, (struct operand){CUBLAS_OP_T, k, 3 * at.width, at.wide_stride},
                         (struct operand){CUBLAS_OP_N, q, 3 * at.width, at.wide_stride}, state->shares + at.scores,
                         length, at.score_stride, length, length, at.size);
    }
    causal_softmax_forward(state->shares, model->sequences * heads, length);
    for (int h = 0; h < heads; ++h) {
        struct head at = head_at(model, h);
        const float *v = state->qkv + at.channels + 2 * (size_t)at.width;
        product_of_heads(model, 1.0f, (struct operand){CUBLAS_OP_N, v, 3 * at.width, at.wide_stride},
                         (struct operand){CUBLAS_OP_N, state->shares + at.scores, length, at.score_stride},
                         state->mixed + at.channels, at.width, at.narrow_stride, at.size, length, length);
    }
}

/* dqkv from dmixed. */
static void
attention_backward(struct model *model, const struct block_state *state, float *dqkv, const float *dmixed)
{
    const int heads = model->layout.shape.heads, length = model->length;
    for (int h = 0; h < heads; ++h) {
        struct head at = head_at(model, h);
        const float *v = state->qkv + at.channels + 2 * (size_t)at.width;
        float *dv = dqkv + at.channels + 2 * (size_t)at.width;
        struct operand dout = {CUBLAS_OP_N, dmixed + at.channels, at.width, at.narrow_stride};
        product_of_heads(model, 1.0f, (struct operand){CUBLAS_OP_T, v, 3 * at.width, at.wide_stride}, dout,
                         model->dshares + at.scores, length, at.score_stride, length, length, at.size);
        product_of_heads(model, 1.0f, dout,
                         (struct operand){CUBLAS_OP_T, state->shares + at.scores, length, at.score_stride}, dv,
                         3 * at.width, at.wide_stride, at.size, length, length);
    }
    causal_softmax_backward(model->dshares, state->shares, model->sequences * heads, length);
    for (int h = 0; h < heads; ++h) {
        struct head at = head_at(model, h);
        const float *q = state->qkv + at.channels, *k = q + at.width, *dscores = model->dshares + at.scores;
        float *dq = dqkv + at.channels, *dk = dq + at.width;
        product_of_heads(model, at.factor, (struct operand){CUBLAS_OP_N, k, 3 * at.width, at.wide_stride},
                         (struct operand){CUBLAS_OP_N, dscores, length, at.score_stride}, dq, 3 * at.width,
                         at.wide_stride, at.size, length, length);
        product_of_heads(model, at.factor, (struct operand){CUBLAS_OP_N, q, 3 * at.width, at.wide_stride},
                         (struct operand){CUBLAS_OP_T, dscores, length, at.score_stride}, dk, 3 * at.width,
                         at.wide_stride, at.size, length, length);
    }
}

static int
row_count(const struct model *model)
{
    return model->sequences * model->length;
}

/* From state->input to `output`, the input of what follows. */
static void
block_forward(struct model *model, int i, float *output)
{
    struct block_state *state = &model->blocks[i];
    const struct block_tensors *at = &model->value_at.blocks[i];
    const int rows = row_count(model), width = model->layout.shape.width;

    layer_norm_forward(state->norm1, state->mean1, state->scale1, state->input, at->gain1, at->bias1, rows, width);
    product_forward(model, state->qkv, state->norm1, at->qkv, rows, width, 3 * width);
    attention_forward(model, state);
    product_forward(model, state->middle, state->mixed, at->project, rows, width, width);
    residual_forward(state->middle, state->input, state->middle, at->project_bias, rows, width);

    layer_norm_forward(state->norm2, state->mean2, state->scale2, state->middle, at->gain2, at->bias2, rows, width);
    product_forward(model, state->expanded, state->norm2, at->expand, rows, width, 4 * width);
    gelu_forward(state->active, state->expanded, at->expand_bias, rows, 4 * width);
    product_forward(model, output, state->active, at->shrink, rows, 4 * width, width);
    residual_forward(output, state->middle, output, at->shrink_bias, rows, width);
}

/* The gradient of the residual stream, model->dstream, from the block's output to its input. */
static void
block_backward(struct model *model, int i)
{
    const struct block_state *state = &model->blocks[i];
    const struct block_tensors *at = &model->value_at.blocks[i], *grad = &model->gradient_at.blocks[i];
    const int rows = row_count(model), width = model->layout.shape.width;
    float *dstream = model->dstream, *dnorm = model->dnorm, *dwide = model->dwide;

    add_column_sums(model, grad->shrink_bias, dstream, rows, width);
    product_backward(model, grad->shrink, dwide, dstream, state->active, at->shrink, rows, 4 * width, width);
    gelu_backward(dwide, dwide, state->expanded, rows, 4 * width);
    add_column_sums(model, grad->expand_bias, dwide, rows, 4 * width);
    product_backward(model, grad->expand, dnorm, dwide, state->norm2, at->expand, rows, width, 4 * width);
    layer_norm_backward(dstream, model->dgains, model->row_sums, dnorm, state->middle, state->mean2, state->scale2,
                        at->gain2, rows, width);
    add_column_sums(model, grad->gain2, model->dgains, rows, width);
    add_column_sums(model, grad->bias2, dnorm, rows, width);

    add_column_sums(model, grad->project_bias, dstream, rows, width);
    product_backward(model, grad->project, dnorm, dstream, state->mixed, at->project, rows, width, width);
    attention_backward(model, state, dwide, dnorm);
    product_backward(model, grad->qkv, dnorm, dwide, state->norm1, at->qkv, rows, width, 3 * width);
    layer_norm_backward(dstream, model->dgains, model->row_sums, dnorm, state->input, state->mean1, state->scale1,
                        at->gain1, rows, width);
    add_column_sums(model, grad->gain1, model->dgains, rows, width);
    add_column_sums(model, grad->bias1, dnorm, rows, width);
}

void
model_forward(struct model *model)
{
    const struct shape *shape = &model->layout.shape;
    const int rows = row_count(model), layers = shape->layers;
    embed_forward(model->blocks[0].input, model->value_at.token_embedding, model->value_at.position_embedding,
                  model->inputs, rows, model->length, shape->width);
    for (int i = 0; i < layers; ++i)
        block_forward(model, i, i + 1 < layers ? model->blocks[i + 1].input : model->output);
    layer_norm_forward(model->norm, model->mean, model->scale, model->output, model->value_at.final_gain,
                       model->value_at.final_bias, rows, shape->width);
    product_forward(model, model->logits, model->norm, model->value_at.head, rows, shape->width, shape->vocabulary);
}

float
model_loss(struct model *model)
{
    cross_entropy(model->losses, model->logits, model->targets, 0.0f, row_count(model), model->layout.shape.vocabulary);
    return model_last_loss(model);
}

void
model_backward(struct model *model, float factor)
{
    const struct shape *shape = &model->layout.shape;
    const int rows = row_count(model), width = shape->width;
    cross_entropy(model->losses, model->logits, model->targets, factor / (float)rows, rows, shape->vocabulary);

    product_backward(model, model->gradient_at.head, model->dnorm, model->logits, model->norm, model->value_at.head,
                     rows, width, shape->vocabulary);
    CHECK_CUDA(cudaMemsetAsync(model->dstream, 0, sizeof(float) * (size_t)rows * (size_t)width, 0));
    layer_norm_backward(model->dstream, model->dgains, model->row_sums, model->dnorm, model->output, model->mean,
                        model->scale, model->value_at.final_gain, rows, width);
    add_column_sums(model, model->gradient_at.final_gain, model->dgains, rows, width);
    add_column_sums(model, model->gradient_at.final_bias, model->dnorm, rows, width);
    for (int i = shape->layers - 1; i >= 0; --i)
        block_backward(model, i);
    embed_backward(model->gradient_at.token_embedding, model->gradient_at.position_embedding, model->dstream,
                   model->by_token, model->token_starts, rows, model->length, shape->vocabulary, width);
}

float
model_last_loss(struct model *model)
{
    const int rows = row_count(model);
    float sum; /* losses are never negative */
    CHECK_CUBLAS(cublasSasum(model->blas, rows, model->losses, 1, &sum));
    return sum / (float)rows;
}

void
model_zero_gradients(struct model *model)
{
    CHECK_CUDA(cudaMemsetAsync(model->gradients, 0, model->layout.count * sizeof(float), 0));
}

void
model_update(struct model *model, const struct adamw *constants)
{
    /* The norm stays on the device: the host does not wait for it. */
    CHECK_CUBLAS(cublasSetPointerMode(model->blas, CUBLAS_POINTER_MODE_DEVICE));
    CHECK_CUBLAS(cublasSnrm2(model->blas, (int)model->layout.count, model->gradients, 1, model->gradient_norm));
    CHECK_CUBLAS(cublasSetPointerMode(model->blas, CUBLAS_POINTER_MODE_HOST));
    adamw_update(model->values, model->moments1, model->moments2, model->gradients, model->gradient_norm, constants,
                 model->layout.count, model->layout.matrix_count);
}

void
model_wait(void)
{
    CHECK_CUDA(cudaDeviceSynchronize());
}

void
model_last_logits(struct model *model, float *logits)
{
    const size_t vocabulary = (size_t)model->layout.shape.vocabulary, last = (size_t)row_count(model) - 1;
    CHECK_CUDA(
        cudaMemcpy(logits, model->logits + last * vocabulary, vocabulary * sizeof(float), cudaMemcpyDeviceToHost));
}

void
model_save(struct model *model, const char *path, int rank)
{
    if (rank != 0 && strstr(path, "%d") == NULL)
        return;

    const struct layout *layout = &model->layout;
    float *values = host_allocate(layout->count, sizeof(float));
    CHECK_CUDA(cudaMemcpy(values, model->values, layout->count * sizeof(float), cudaMemcpyDeviceToHost));
    struct parameter parameters[TENSORS_MAX];
    for (int i = 0; i < layout->tensor_count; ++i) {
        const struct tensor *tensor = &layout->tensors[i];
        memcpy(parameters[i].name, tensor->name, sizeof(tensor->name));
        parameters[i].count = tensor->count;
        parameters[i].values = values + tensor->offset;
    }
    if (parameter_file_write(path, rank, parameters, (size_t)layout->tensor_count) != 0)
        exit(1); /* parameter_file_write() has said why */
    free(values);
}

/*
 * gpt.c - see gpt.h. Loops as one writes them for a CPU: row by row, each row while it is in the cache.
 */
#include "gpt.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float TWICE_SQRT_2_OVER_PI = 1.5957691216f;

static float *
allocate(size_t count)
{
    float *memory = calloc(count, sizeof(float));
    if (memory == NULL) {
        fprintf(stderr, "chargpt_reference: out of memory\n");
        exit(1);
    }
    return memory;
}

void
gpt_create(struct gpt *gpt, const struct shape *shape, size_t max_sequences, uint64_t seed)
{
    memset(gpt, 0, sizeof(*gpt));
    layout_create(&gpt->layout, shape);
    const size_t count = gpt->layout.count, rows = max_sequences * (size_t)shape->context;
    const size_t width = (size_t)shape->width, scores = rows * (size_t)shape->heads * (size_t)shape->context;
    gpt->values = allocate(count);
    gpt->gradients = allocate(count);
    gpt->moments1 = allocate(count);
    gpt->moments2 = allocate(count);
    layout_initialise(&gpt->layout, gpt->values, seed);
    gpt->value_at = layout_tensors(&gpt->layout, gpt->values);
    gpt->gradient_at = layout_tensors(&gpt->layout, gpt->gradients);
    for (int i = 0; i < shape->layers; ++i) {
        gpt->blocks[i] = (struct gpt_block){
            .input = allocate(rows * width),
            .mean1 = allocate(rows),
            .scale1 = allocate(rows),
            .norm1 = allocate(rows * width),
            .qkv = allocate(rows * 3 * width),
            .shares = allocate(scores),
            .mixed = allocate(rows * width),
            .middle = allocate(rows * width),
            .mean2 = allocate(rows),
            .scale2 = allocate(rows),
            .norm2 = allocate(rows * width),
            .expanded = allocate(rows * 4 * width),
            .active = allocate(rows * 4 * width),
        };
    }
    gpt->output = allocate(rows * width);
    gpt->mean = allocate(rows);
    gpt->scale = allocate(rows);
    gpt->norm = allocate(rows * width);
    gpt->logits = allocate(rows * (size_t)shape->vocabulary);
    gpt->dstream = allocate(rows * width);
    gpt->dnorm = allocate(rows * width);
    gpt->dwide = allocate(rows * 4 * width);
    gpt->dshares = allocate(scores);
}

void
gpt_destroy(struct gpt *gpt)
{
    for (int i = 0; i < gpt->layout.shape.layers; ++i) {
        struct gpt_block *b = &gpt->blocks[i];
        float *const memory[] = {b->input,  b->mean1, b->scale1, b->norm1, b->qkv,      b->shares, b->mixed,
                                 b->middle, b->mean2, b->scale2, b->norm2, b->expanded, b->active};
        for (size_t j = 0; j < sizeof(memory) / sizeof(memory[0]); ++j)
            free(memory[j]);
    }
    float *const memory[] = {gpt->values, gpt->gradients, gpt->moments1, gpt->moments2, gpt->output,
                             gpt->mean,   gpt->scale,     gpt->norm,     gpt->logits,   gpt->dstream,
                             gpt->dnorm,  gpt->dwide,     gpt->dshares};
    for (size_t j = 0; j < sizeof(memory) / sizeof(memory[0]); ++j)
        free(memory[j]);
}

/* y = x w + bias, or without a bias. */
static void
product_forward(float *y, const float *x, const float *w, const float *bias, int rows, int inputs, int outputs)
{
    for (int r = 0; bias != NULL && r < rows; ++r)
        memcpy(y + (size_t)r * (size_t)outputs, bias, sizeof(float) * (size_t)outputs);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, outputs, inputs, 1.0f, x, inputs, w, outputs,
                bias != NULL ? 1.0f : 0.0f, y, outputs);
}

/* dw += x' dy, dbias += column sums of dy, dx = dy w'. */
static void
product_backward(float *dw, float *dbias, float *dx, const float *dy, const float *x, const float *w, int rows,
                 int inputs, int outputs)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, inputs, outputs, rows, 1.0f, x, inputs, dy, outputs, 1.0f, dw,
                outputs);
    for (int r = 0; dbias != NULL && r < rows; ++r) {
        for (int c = 0; c < outputs; ++c)
            dbias[c] += dy[r * outputs + c];
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, inputs, outputs, 1.0f, dy, outputs, w, outputs, 0.0f, dx,
                inputs);
}

static void
layer_norm_forward(float *y, float *mean, float *scale, const float *x, const float *gain, const float *bias, int rows,
                   int width)
{
    for (int r = 0; r < rows; ++r) {
        const float *in = x + r * width;
        float *out = y + r * width, sum = 0.0f, squares = 0.0f;
        for (int c = 0; c < width; ++c)
            sum += in[c];
        float m = sum / (float)width;
        for (int c = 0; c < width; ++c)
            squares += (in[c] - m) * (in[c] - m);
        float s = 1.0f / sqrtf(squares / (float)width + 1e-5f);
        for (int c = 0; c < width; ++c)
            out[c] = (in[c] - m) * s * gain[c] + bias[c];
        mean[r] = m;
        scale[r] = s;
    }
}

/* dx += ..., dgain += ..., dbias += ... */
static void
layer_norm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x, const float *mean,
                    const float *scale, const float *gain, int rows, int width)
{
    for (int r = 0; r < rows; ++r) {
        const float *in = x + r * width, *dout = dy + r * width;
        float *din = dx + r * width, m = mean[r], s = scale[r], sum = 0.0f, product = 0.0f;
        for (int c = 0; c < width; ++c) {
            float d = dout[c] * gain[c];
            sum += d;
            product += d * ((in[c] - m) * s);
        }
        sum /= (float)width;
        product /= (float)width;
        for (int c = 0; c < width; ++c) {
            float normalised = (in[c] - m) * s;
            dgain[c] += dout[c] * normalised;
            dbias[c] += dout[c];
            din[c] += s * (dout[c] * gain[c] - sum - normalised * product);
        }
    }
}

/* One head of one sequence: its part of a buffer whose rows are `width` wide. */
static void
attention_head_forward(float *mixed, float *shares, const float *qkv, int length, int width, int size)
{
    const float *q = qkv, *k = qkv + width, *v = k + width;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, length, length, size, 1.0f / sqrtf((float)size), q, 3 * width,
                k, 3 * width, 0.0f, shares, length);
    for (int t = 0; t < length; ++t) {
        float *s = shares + t * length, largest = s[0], sum = 0.0f;
        for (int c = 1; c <= t; ++c)
            largest = s[c] > largest ? s[c] : largest;
        for (int c = 0; c <= t; ++c) {
            s[c] = expf(s[c] - largest);
            sum += s[c];
        }
        float inverse = 1.0f / sum;
        for (int c = 0; c <= t; ++c)
            s[c] *= inverse;
        for (int c = t + 1; c < length; ++c)
            s[c] = 0.0f;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, length, size, length, 1.0f, shares, length, v, 3 * width,
                0.0f, mixed, width);
}

static void
attention_head_backward(float *dqkv, float *dshares, const float *dmixed, const float *shares, const float *qkv,
                        int length, int width, int size)
{
    const float *q = qkv, *k = qkv + width, *v = k + width, factor = 1.0f / sqrtf((float)size);
    float *dq = dqkv, *dk = dqkv + width, *dv = dk + width;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, length, length, size, 1.0f, dmixed, width, v, 3 * width, 0.0f,
                dshares, length);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, length, size, length, 1.0f, shares, length, dmixed, width,
                0.0f, dv, 3 * width);
    for (int t = 0; t < length; ++t) {
        float *d = dshares + t * length, product = 0.0f;
        const float *s = shares + t * length;
        for (int c = 0; c < length; ++c)
            product += s[c] * d[c];
        for (int c = 0; c < length; ++c)
            d[c] = s[c] * (d[c] - product);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, length, size, length, factor, dshares, length, k, 3 * width,
                0.0f, dq, 3 * width);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, length, size, length, factor, dshares, length, q, 3 * width,
                0.0f, dk, 3 * width);
}

static float
gelu_share(float x)
{
    return 1.0f / (1.0f + expf(-TWICE_SQRT_2_OVER_PI * (x + 0.044715f * x * x * x)));
}

static void
block_forward(struct gpt *gpt, int i, float *output, int sequences, int length)
{
    const struct shape *shape = &gpt->layout.shape;
    const struct block_tensors *at = &gpt->value_at.blocks[i];
    struct gpt_block *b = &gpt->blocks[i];
    const int width = shape->width, size = width / shape->heads, rows = sequences * length;

    layer_norm_forward(b->norm1, b->mean1, b->scale1, b->input, at->gain1, at->bias1, rows, width);
    product_forward(b->qkv, b->norm1, at->qkv, NULL, rows, width, 3 * width);
    for (int s = 0; s < sequences; ++s) {
        for (int h = 0; h < shape->heads; ++h)
            attention_head_forward(b->mixed + s * length * width + h * size,
                                   b->shares + (s * shape->heads + h) * length * length,
                                   b->qkv + s * length * 3 * width + h * size, length, width, size);
    }
    product_forward(b->middle, b->mixed, at->project, at->project_bias, rows, width, width);
    for (int j = 0; j < rows * width; ++j)
        b->middle[j] += b->input[j];

    layer_norm_forward(b->norm2, b->mean2, b->scale2, b->middle, at->gain2, at->bias2, rows, width);
    product_forward(b->expanded, b->norm2, at->expand, at->expand_bias, rows, width, 4 * width);
    for (int j = 0; j < rows * 4 * width; ++j)
        b->active[j] = b->expanded[j] * gelu_share(b->expanded[j]);
    product_forward(output, b->active, at->shrink, at->shrink_bias, rows, 4 * width, width);
    for (int j = 0; j < rows * width; ++j)
        output[j] += b->middle[j];
}

static void
block_backward(struct gpt *gpt, int i, int sequences, int length)
{
    const struct shape *shape = &gpt->layout.shape;
    const struct block_tensors *at = &gpt->value_at.blocks[i], *grad = &gpt->gradient_at.blocks[i];
    const struct gpt_block *b = &gpt->blocks[i];
    const int width = shape->width, size = width / shape->heads, rows = sequences * length;
    float *dstream = gpt->dstream, *dnorm = gpt->dnorm, *dwide = gpt->dwide;

    product_backward(grad->shrink, grad->shrink_bias, dwide, dstream, b->active, at->shrink, rows, 4 * width, width);
    for (int j = 0; j < rows * 4 * width; ++j) {
        float x = b->expanded[j], share = gelu_share(x);
        float slope = TWICE_SQRT_2_OVER_PI * (1.0f + 3.0f * 0.044715f * x * x);
        dwide[j] *= share + x * share * (1.0f - share) * slope;
    }
    product_backward(grad->expand, grad->expand_bias, dnorm, dwide, b->norm2, at->expand, rows, width, 4 * width);
    layer_norm_backward(dstream, grad->gain2, grad->bias2, dnorm, b->middle, b->mean2, b->scale2, at->gain2, rows,
                        width);

    product_backward(grad->project, grad->project_bias, dnorm, dstream, b->mixed, at->project, rows, width, width);
    for (int s = 0; s < sequences; ++s) {
        for (int h = 0; h < shape->heads; ++h)
            attention_head_backward(dwide + s * length * 3 * width + h * size, gpt->dshares,
                                    dnorm + s * length * width + h * size,
                                    b->shares + (s * shape->heads + h) * length * length,
                                    b->qkv + s * length * 3 * width + h * size, length, width, size);
    }
    product_backward(grad->qkv, NULL, dnorm, dwide, b->norm1, at->qkv, rows, width, 3 * width);
    layer_norm_backward(dstream, grad->gain1, grad->bias1, dnorm, b->input, b->mean1, b->scale1, at->gain1, rows,
                        width);
}

double
gpt_forward(struct gpt *gpt, const int *inputs, const int *targets, size_t sequences, size_t length)
{
    const struct shape *shape = &gpt->layout.shape;
    const int width = shape->width, vocabulary = shape->vocabulary, rows = (int)(sequences * length);
    for (int r = 0; r < rows; ++r) {
        const float *token = gpt->value_at.token_embedding + inputs[r] * width;
        const float *position = gpt->value_at.position_embedding + (r % (int)length) * width;
        for (int c = 0; c < width; ++c)
            gpt->blocks[0].input[r * width + c] = token[c] + position[c];
    }
    for (int i = 0; i < shape->layers; ++i)
        block_forward(gpt, i, i + 1 < shape->layers ? gpt->blocks[i + 1].input : gpt->output, (int)sequences,
                      (int)length);
    layer_norm_forward(gpt->norm, gpt->mean, gpt->scale, gpt->output, gpt->value_at.final_gain,
                       gpt->value_at.final_bias, rows, width);
    product_forward(gpt->logits, gpt->norm, gpt->value_at.head, NULL, rows, width, vocabulary);

    double loss = 0.0;
    for (int r = 0; r < rows; ++r) {
        float *z = gpt->logits + r * vocabulary, largest = z[0], sum = 0.0f;
        for (int c = 1; c < vocabulary; ++c)
            largest = z[c] > largest ? z[c] : largest;
        float at_target = z[targets[r]] - largest;
        for (int c = 0; c < vocabulary; ++c) {
            z[c] = expf(z[c] - largest);
            sum += z[c];
        }
        loss += (double)(logf(sum) - at_target);
        float inverse = 1.0f / sum;
        for (int c = 0; c < vocabulary; ++c)
            z[c] *= inverse; /* the shares: all that backward needs */
    }
    return loss / rows;
}

void
gpt_backward(struct gpt *gpt, const int *inputs, const int *targets, size_t sequences, size_t length, float factor)
{
    const struct shape *shape = &gpt->layout.shape;
    const int width = shape->width, vocabulary = shape->vocabulary, rows = (int)(sequences * length);
    factor /= (float)rows;
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < vocabulary; ++c)
            gpt->logits[r * vocabulary + c] *= factor;
        gpt->logits[r * vocabulary + targets[r]] -= factor;
    }
    product_backward(gpt->gradient_at.head, NULL, gpt->dnorm, gpt->logits, gpt->norm, gpt->value_at.head, rows, width,
                     vocabulary);
    memset(gpt->dstream, 0, sizeof(float) * (size_t)rows * (size_t)width);
    layer_norm_backward(gpt->dstream, gpt->gradient_at.final_gain, gpt->gradient_at.final_bias, gpt->dnorm, gpt->output,
                        gpt->mean, gpt->scale, gpt->value_at.final_gain, rows, width);
    for (int i = shape->layers - 1; i >= 0; --i)
        block_backward(gpt, i, (int)sequences, (int)length);
    for (int r = 0; r < rows; ++r) {
        float *token = gpt->gradient_at.token_embedding + inputs[r] * width;
        float *position = gpt->gradient_at.position_embedding + (r % (int)length) * width;
        for (int c = 0; c < width; ++c) {
            token[c] += gpt->dstream[r * width + c];
            position[c] += gpt->dstream[r * width + c];
        }
    }
}

void
gpt_zero_gradients(struct gpt *gpt)
{
    memset(gpt->gradients, 0, sizeof(float) * gpt->layout.count);
}

void
gpt_update(struct gpt *gpt, const struct adamw *k)
{
    const int count = (int)gpt->layout.count, decayed = (int)gpt->layout.matrix_count;
    float norm = cblas_snrm2(count, gpt->gradients, 1), clip = norm > k->norm_limit ? k->norm_limit / norm : 1.0f;
    for (int i = 0; i < count; ++i) {
        float gradient = gpt->gradients[i] * clip, decay = i < decayed ? k->decay : 0.0f;
        float m = k->beta1 * gpt->moments1[i] + (1.0f - k->beta1) * gradient;
        float v = k->beta2 * gpt->moments2[i] + (1.0f - k->beta2) * gradient * gradient;
        gpt->moments1[i] = m;
        gpt->moments2[i] = v;
        gpt->values[i] -=
            k->rate * (m / k->correction1 / (sqrtf(v / k->correction2) + k->epsilon) + decay * gpt->values[i]);
    }
}

/* models.c - see models.h. */
#include "models.h"

#include <stdio.h>
#include <stdlib.h>

/* An operation of forward, and the work of its backward pass for one sample: gradients of its input and its weight. */
struct operation {
    uint64_t elements; /* 0: no parameter of its own */
    double mflop;
};

struct part {
    int repeats;
    size_t count;
    const struct operation *operations; /* in the order of forward */
};

#define PART(repeats, ...)                                                                   \
    {                                                                                        \
        repeats, sizeof((const struct operation[]){__VA_ARGS__}) / sizeof(struct operation), \
            (const struct operation[])                                                       \
        {                                                                                    \
            __VA_ARGS__                                                                      \
        }                                                                                    \
    }

/* A weight and a bias. */
#define LAYER(elements, mflop, width) \
    {elements, mflop},                \
    {                                 \
        width, 0                      \
    }

/* Before a layer's bias, a normalisation of the same width with a bias of its own. */
#define CONVOLUTION(elements, mflop, width, norm_mflop) {elements, mflop}, LAYER(width, norm_mflop, width)

/* Of ResNet: a block with a projection shortcut, and `repeats` blocks without. */
#define STAGE(inputs, width, repeats, shortcut, first, norm, wide_norm)                          \
    PART(1, CONVOLUTION(4 * inputs * width, shortcut, 4 * width, wide_norm),                     \
         CONVOLUTION(inputs *width, first, width, norm), REST_OF_BLOCK(width, norm, wide_norm)), \
        PART(repeats, CONVOLUTION(4 * width * width, 205.5, width, norm), REST_OF_BLOCK(width, norm, wide_norm))
#define REST_OF_BLOCK(width, norm, wide_norm) \
    CONVOLUTION(9 * width * width, 462.4, width, norm), CONVOLUTION(4 * width * width, 205.5, 4 * width, wide_norm)

enum { PARTS = 10 };

/* Batch, rate and least time of an operation are ddprun's assumptions. */
static const struct {
    const char *name;
    double batch, tflops, least_us;
    struct part parts[PARTS];
} sources[MODEL_COUNT] = {
    /* On images of 224 x 224, 25,557,032 parameters. K. He, X. Zhang, S. Ren, J. Sun, "Deep Residual Learning for Image
     * Recognition", CVPR 2016 (arXiv 1512.03385), table 1 and section 3.3: batch normalisation after each convolution,
     * projection shortcuts where sizes change. */
    {"resnet50",
     128,
     50,
     8,
     {PART(1, CONVOLUTION(9408, 236, 64, 8.028)), STAGE(64, 64, 2, 205.5, 51.38, 2.007, 8.028),
      STAGE(256, 128, 3, 411, 102.8, 1.004, 4.014), STAGE(512, 256, 5, 411, 102.8, 0.5018, 2.007),
      STAGE(1024, 512, 2, 411, 102.8, 0.2509, 1.004), PART(1, LAYER(2048000, 8.192, 1000))}},
    /* 336,226,108 parameters with the two heads of its pre-training, on sequences of 512 tokens of which 15 % are
     * masked. J. Devlin, M.-W. Chang, K. Lee, K. Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers for
     * Language Understanding", NAACL 2019 (arXiv 1810.04805), section 3: 24 layers, width 1024, feed-forward width
     * 4096, vocabulary of 30,522 word pieces. The decoder's weight is the word embedding's: that gradient is complete
     * only at the end of backward. */
    {"bert-large",
     16,
     120,
     8,
     {PART(1, {31254528, 0}, {524288, 0}, {2048, 0}, LAYER(1024, 5.243, 1024)),
      PART(24, LAYER(1048576, 2147, 1024), LAYER(1048576, 2147, 1024), LAYER(1048576, 2147, 1024),
           /* scores */ {0, 2147}, LAYER(1048576, 2147, 1024), LAYER(1024, 5.243, 1024), LAYER(4194304, 8590, 4096),
           LAYER(4194304, 8590, 1024), LAYER(1024, 5.243, 1024)),
      PART(1, LAYER(1048576, 4.194, 1024), LAYER(1048576, 322.1, 1024), LAYER(1024, 0, 1024),
           /* decoder */ LAYER(0, 9601, 30522), LAYER(2048, 0, 2))}},
    /* The smallest (124,439,808 parameters), on sequences of 1,024 tokens. A. Radford, J. Wu, R. Child, D. Luan, D.
     * Amodei, I. Sutskever, "Language Models are Unsupervised Multitask Learners", 2019, section 2.3 and table 2: 12
     * layers, width 768, context 1,024, vocabulary of 50,257. The head's weight is the token embedding's. */
    {"gpt2-124m",
     16,
     120,
     8,
     {PART(1, {38597376, 0}, {786432, 0}),
      PART(12, LAYER(768, 7.864, 768), LAYER(1769472, 7248, 2304), /* scores */ {0, 6442}, LAYER(589824, 2416, 768),
           LAYER(768, 7.864, 768), LAYER(2359296, 9664, 3072), LAYER(2359296, 9664, 768)),
      PART(1, LAYER(768, 7.864, 768), /* head */ {0, 1.581e+05})}},
    /* Made up: no published model is like it. 5.4 million parameters: 1,250 layers of width 64 with a bias, a gain and
     * a shift each, for 256 positions. It stands for programs with many small layers. */
    {"small-tensors", 32, 20, 5, {PART(1250, LAYER(4096, 4.194, 64), LAYER(64, 0.16, 64))}},
};

void *
array(size_t count, size_t bytes)
{
    void *made = calloc(count + 1, bytes);
    if (made == NULL) {
        fprintf(stderr, "bench: out of memory\n");
        exit(1);
    }
    return made;
}

/* Backward goes from the last operation to the first. */
void
model_make(size_t number, struct model *model)
{
    double us = 0.0;
    size_t most = 0;
    for (int p = 0; p < PARTS; ++p)
        most += (size_t)sources[number].parts[p].repeats * sources[number].parts[p].count;
    *model = (struct model){.name = sources[number].name,
                            .gradients = array(most, sizeof(model->gradients[0])),
                            .ready_ns = array(most, sizeof(model->ready_ns[0])),
                            .spent_ns = array(most, sizeof(model->spent_ns[0])),
                            .order = array(most, sizeof(model->order[0]))};
    for (int p = PARTS; p-- > 0;) {
        const struct part *part = &sources[number].parts[p];
        for (size_t i = (size_t)part->repeats * part->count; i-- > 0;) {
            const struct operation *operation = &part->operations[i % part->count];
            double spent_us =
                operation->mflop * sources[number].batch / sources[number].tflops; /* 1e6 / 1e12 s: 1 us */
            us += spent_us > sources[number].least_us ? spent_us : sources[number].least_us;
            if (operation->elements == 0)
                continue;
            size_t at = model->count++;
            model->gradients[at] = (struct plan_gradient){operation->elements * BYTES_PER_ELEMENT, 0};
            model->ready_ns[at] = (int64_t)(us * 1000.0);
            model->spent_ns[at] = model->ready_ns[at] - (at > 0 ? model->ready_ns[at - 1] : 0);
            model->order[at] = at;
            model->bytes += operation->elements * BYTES_PER_ELEMENT;
        }
    }
    model->backward_ns = (int64_t)(us * 1000.0);
}

void
model_free(struct model *model)
{
    free(model->gradients);
    free(model->ready_ns);
    free(model->spent_ns);
    free(model->order);
    *model = (struct model){0};
}

/*
 * layout.h - where each tensor of the network lies in one flat buffer. Parameters, gradients and the optimizer's two
 * moments are four such buffers of one layout.
 *
 * Host code without CUDA. Used by the trainer, and by the plain C reference that it is checked against, so that both
 * start from the same values. Matrices are stored row by row as [inputs][outputs] and come first; the vectors, which
 * have no weight decay, follow.
 */
#ifndef CHARGPT_LAYOUT_H
#define CHARGPT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { LAYERS_MAX = 24, TENSORS_MAX = 11 * LAYERS_MAX + 5 };

struct shape {
    int layers;
    int width;   /* channels of the residual stream */
    int heads;   /* divides width */
    int context; /* characters that the network sees at a time */
    int vocabulary;
};

struct tensor {
    char name[32];
    size_t offset, count; /* in floats */
    float deviation;      /* of the initial values, which are normally distributed ... */
    float mean;           /* ... round this */
};

struct layout {
    struct shape shape;
    struct tensor tensors[TENSORS_MAX];
    int tensor_count;
    size_t matrix_count; /* floats of all matrices: the buffer's first part */
    size_t count;        /* floats of the whole buffer */
};

/* Pointers into a buffer. C is the width. */
struct block_tensors {
    float *qkv;     /* [C][3C]: queries, keys, values; without a bias, to which softmax is nearly blind */
    float *project; /* [C][C] */
    float *expand;  /* [C][4C] */
    float *shrink;  /* [4C][C] */
    float *gain1, *bias1, *project_bias;
    float *gain2, *bias2, *expand_bias, *shrink_bias;
};

struct tensors {
    float *token_embedding;    /* [vocabulary][C] */
    float *position_embedding; /* [context][C] */
    float *head;               /* [C][vocabulary] */
    struct block_tensors blocks[LAYERS_MAX];
    float *final_gain, *final_bias;
};

void layout_create(struct layout *layout, const struct shape *shape);

/* The tensors of the buffer at `base`, on the host or the device. */
struct tensors layout_tensors(const struct layout *layout, float *base);

/*
 * Initial values, in host memory. As for GPT-2 (A. Radford et al., "Language models are unsupervised multitask
 * learners", 2019, section 2.3): deviation 0.02, for what adds to the residual stream 0.02 / sqrt(2 layers).
 */
void layout_initialise(const struct layout *layout, float *values, uint64_t seed);

#endif

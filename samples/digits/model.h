/*
 * model.h - a multi-layer perceptron 64-128-64-10 with ReLU, in device memory, on the default stream.
 *
 * Each tensor has its own cudaMalloc. Matrix products are cuBLAS's, all else are the kernels of kernels.h. An error of
 * CUDA ends the program (cuda_check.h). Not for use by several threads at a time.
 */
#ifndef DIGITS_MODEL_H
#define DIGITS_MODEL_H

#include <cublas_v2.h>
#include <stddef.h>
#include <stdint.h>

enum { LAYERS = 3, TENSORS = 2 * LAYERS };

/* Parameters of one kind: a layer's weights [inputs][outputs] or its bias [outputs]. */
struct tensor {
    char name[8];
    size_t count;
    float *value;
    float *gradient;
    float *velocity; /* the optimizer's */
};

struct layer {
    int inputs, outputs;
    struct tensor *weights, *bias;
    float *output;  /* [max_rows][outputs], after the ReLU of all layers but the last */
    float *doutput; /* its gradient */
};

struct model {
    cublasHandle_t blas;
    struct tensor tensors[TENSORS];
    struct layer layers[LAYERS];
    size_t max_rows;
    float *input;  /* [max_rows][64] */
    int *labels;   /* [max_rows] */
    float *losses; /* [max_rows] */
    float *loss;   /* mean of the losses, one float */
};

/* Allocates for batches of up to max_rows images and fills the weights at random (He's uniform initialisation). */
void model_create(struct model *model, size_t max_rows, uint64_t seed);

void model_destroy(struct model *model);

/* Copies a batch to the device: the input of the calls below. 1 <= rows <= max_rows. */
void model_input(struct model *model, const float *pixels, const int *labels, size_t rows);

/* From the input to the logits, losses and their gradient. */
void model_forward(struct model *model, size_t rows);

/* The gradients of the mean loss over `rows`, after model_forward(). */
void model_backward(struct model *model, size_t rows);

/* One step of the optimizer with the gradients. */
void model_update(struct model *model, float rate);

/* Mean loss of the last model_forward(); waits for the device. */
float model_loss(struct model *model, size_t rows);

/* How many of the input's images the last model_forward() read rightly; waits for the device. */
size_t model_correct(struct model *model, const int *labels, size_t rows);

/*
 * Writes the parameters to `path`, where "%d" becomes `rank`; a path without it is written by rank 0 only. Ends the
 * program with exit code 1 if the file cannot be written.
 */
void model_save(struct model *model, const char *path, int rank);

#endif

#ifndef MODEL_H
#define MODEL_H
#include <stddef.h>

typedef struct {
    int V; /* vocabulary */
    int T; /* sequence length */
    int C; /* channels */
    int K; /* classes */
} Config;

#define NUM_TENSORS 7
typedef struct {
    float *wte;   /* V, C */
    float *wpe;   /* T, C */
    float *qkvw;  /* 3C, C */
    float *qkvb;  /* 3C */
    float *projw; /* C, C */
    float *headw; /* K, C */
    float *headb; /* K */
} ParameterTensors;

typedef struct {
    float *encoded, *qkv, *att, *atty, *resid, *pooled, *logits, *losses;
} Activations;

typedef struct {
    Config config;
    ParameterTensors params, grads;
    size_t sizes[NUM_TENSORS], num_parameters;
    float *params_memory, *grads_memory, *m_memory, *v_memory, *acts_memory, *grads_acts_memory;
    Activations acts, dacts;
    size_t num_activations;
    int batch_size;
    int *inputs, *targets; /* on the device */
    float mean_loss;
} Model;

void model_build(Model *model, Config config, int B);
void model_forward(Model *model, const int *inputs, const int *targets, int B);
void model_zero_grad(Model *model);
void model_backward(Model *model);
void model_update(Model *model, float lr, float beta1, float beta2, float eps, float wd, int t);
void model_free(Model *model);

typedef struct {
    int B, T, V, K;
    unsigned long long state;
    int *inputs, *targets; /* on the host */
} DataLoader;
void dataloader_init(DataLoader *loader, int B, int T, int V, int K, unsigned long long seed);
void dataloader_next_batch(DataLoader *loader);
void dataloader_free(DataLoader *loader);
#endif

/* Second order factorization machine:
 *   score = b + <w, x> + sum_{i<j} <v_i, v_j> x_i x_j
 */
#ifndef FM_H
#define FM_H

#define NFEAT 20
#define NFACT 6

typedef struct {
    float *bias, *linear, *factor;        /* 1, NFEAT, NFEAT x NFACT */
    float *g_bias, *g_linear, *g_factor;  /* gradients, summed over the batch */
    float *s_bias, *s_linear, *s_factor;  /* RMSprop state */
    float *prob, *mix;                    /* per row: p, and NFACT partial sums */
    float *loss;
    int max_batch;
} fm_t;

typedef struct {
    int rows;
    float *x;      /* host */
    float *label;
    float *d_x;    /* device copies */
    float *d_label;
} table_t;

/* data.cu */
void table_generate(table_t *t, int rows, unsigned seed);
void table_free(table_t *t);

/* fm.cu */
void fm_init(fm_t *fm, int max_batch, unsigned seed);
void fm_free(fm_t *fm);
void fm_gradient(fm_t *fm, const float *d_x, const float *d_label, int offset, int n);
void fm_update(fm_t *fm, float rate, float rescale, float l2);
float fm_evaluate(fm_t *fm, const table_t *t);
float fm_take_loss(fm_t *fm);

#endif

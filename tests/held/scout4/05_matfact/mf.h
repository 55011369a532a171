#ifndef MF_H
#define MF_H

#define NUM_USERS 300
#define NUM_ITEMS 200
#define RANK 16

typedef struct {
    float *user;      /* NUM_USERS x RANK */
    float *item;      /* NUM_ITEMS x RANK */
    float *user_bias; /* NUM_USERS */
    float *item_bias; /* NUM_ITEMS */
} factors_t;

typedef struct {
    int u, i;
    float r;
} rating_t;

void factors_alloc(factors_t *f);
void factors_zero(factors_t *f);
void factors_random(factors_t *f, unsigned seed);
void factors_free(factors_t *f);

/* returns the sum of squared errors over the batch */
float mf_gradient(const factors_t *model, factors_t *grad, const int *users, const int *items, const float *ratings,
                  int n, float mean, float lambda);
void mf_update(factors_t *model, const factors_t *grad, float lr);

#endif

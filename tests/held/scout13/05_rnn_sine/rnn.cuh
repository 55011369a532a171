#ifndef RNN_CUH
#define RNN_CUH

/* Vanilla RNN with a scalar input and output: h_t = tanh(Wx x_t + Wh h_{t-1} + b),  y = V h_T + c */
typedef struct {
    int batch, steps, hidden;
} rnn_shape;

typedef struct {
    float *wx;  /* [H]    */
    float *wh;  /* [H, H] */
    float *b;   /* [H]    */
    float *v;   /* [H]    */
    float *c;   /* [1]    */
} rnn_weights;

enum { RNN_TENSORS = 5 };

void rnn_forward(rnn_shape s, rnn_weights w, const float *x, float *h, float *y);
void rnn_backward(rnn_shape s, rnn_weights w, rnn_weights g, const float *x, const float *target, const float *h,
                  const float *y, float *dh, float *dh_next, float *loss);
/* sum of squares of n floats is added to *out */
void sum_squares(const float *a, int n, float *out);
void sgd_clipped(float *w, const float *g, int n, float lr, const float *norm2, float max_norm);

#endif

#ifndef RNN_H
#define RNN_H

#define HIDDEN 40
#define SEQ_LENGTH 10
#define BATCH_SIZE 32

struct rnn {
    int vocab;
    /* weights and their gradients: Wxh, Whh, Why, bh, by */
    float *w[5];
    float *dw[5];
    float *mem[5];
    int size[5];
    /* activations; the hidden state of slot 0 is carried over */
    float *h, *p, *dy, *dh, *draw;
    float *loss;
    int *in, *out;
};

void rnn_create(struct rnn *r, int vocab);
void rnn_destroy(struct rnn *r);
float rnn_lossfun(struct rnn *r, const int *inputs, const int *targets);
void rnn_adagrad(struct rnn *r, float learning_rate);
#endif

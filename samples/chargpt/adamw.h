/*
 * adamw.h - what one step of the optimizer needs to know besides its buffers. Passed by value to its kernel.
 */
#ifndef CHARGPT_ADAMW_H
#define CHARGPT_ADAMW_H

struct adamw {
    float rate, decay, beta1, beta2, epsilon;
    float correction1, correction2; /* 1 - beta^step */
    float norm_limit;               /* gradients are scaled down to this norm */
};

#endif

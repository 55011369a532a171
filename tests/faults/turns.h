/*
 * turns.h - the kernels of trainer.c's trainer for `ddprun --plan`.
 */
#ifndef DDPRUN_TESTS_FAULTS_TURNS_H
#define DDPRUN_TESTS_FAULTS_TURNS_H

#define TURNS_RATE 0.5f
#define TURNS_ROWS 2

#ifdef __cplusplus
extern "C" {
#endif

/* Of half the squared distance between weights and the mean of a batch[TURNS_ROWS][count]. */
void turns_gradient(float *gradient, const float *weight, const float *batch, int count);
void turns_update(float *weight, const float *gradient, int count);

#ifdef __cplusplus
}
#endif

#endif

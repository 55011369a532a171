/* trainer.h - between the CUDA source and the programs around it. */
#ifndef TRAINER_H
#define TRAINER_H

#ifdef __cplusplus
extern "C" {
#endif

/* Ten steps; *first is the first weight afterwards. Returns 0, or 1 after an error of CUDA's. */
int train(float *first);

/* The same, in a library that is compiled with TRAINER=second. */
int second(float *first);

#ifdef __cplusplus
}
#endif
#endif

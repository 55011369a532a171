/*
 * fake_driver.h - what the tests see of fake_driver.c, and how arguments are compared: as 64-bit words.
 */
#ifndef DDPRUN_TESTS_INTERPOSE_FAKE_DRIVER_H
#define DDPRUN_TESTS_INTERPOSE_FAKE_DRIVER_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { ARGUMENTS_AT_MOST = 16 };

struct fake_driver {
    CUresult result; /* of every call */
    unsigned argument_count;
    uint64_t arguments[ARGUMENTS_AT_MOST]; /* of the last call */
    bool asks_back;                        /* it looks a function of its own up by dlsym, in every call: */
    void *own;                             /* what it found last */
    bool meets;                            /* calls wait for each other at: */
    pthread_barrier_t meeting;
};
extern struct fake_driver fake_driver;

/* How often the function that is exported as `symbol` was called. */
unsigned long fake_driver_calls(const char *symbol);

/* The arguments of a call as words: WORDS(a, b, c) is (word of a), (word of b), (word of c). */
#define WORD(value)                                                           (uint64_t)(uintptr_t)(value)
#define WORDS_1(a)                                                            WORD(a)
#define WORDS_2(a, ...)                                                       WORD(a), WORDS_1(__VA_ARGS__)
#define WORDS_3(a, ...)                                                       WORD(a), WORDS_2(__VA_ARGS__)
#define WORDS_4(a, ...)                                                       WORD(a), WORDS_3(__VA_ARGS__)
#define WORDS_5(a, ...)                                                       WORD(a), WORDS_4(__VA_ARGS__)
#define WORDS_6(a, ...)                                                       WORD(a), WORDS_5(__VA_ARGS__)
#define WORDS_7(a, ...)                                                       WORD(a), WORDS_6(__VA_ARGS__)
#define WORDS_8(a, ...)                                                       WORD(a), WORDS_7(__VA_ARGS__)
#define WORDS_9(a, ...)                                                       WORD(a), WORDS_8(__VA_ARGS__)
#define WORDS_10(a, ...)                                                      WORD(a), WORDS_9(__VA_ARGS__)
#define WORDS_11(a, ...)                                                      WORD(a), WORDS_10(__VA_ARGS__)
#define WORDS_12(a, ...)                                                      WORD(a), WORDS_11(__VA_ARGS__)
#define WORDS_13(a, ...)                                                      WORD(a), WORDS_12(__VA_ARGS__)
#define WORDS_14(a, ...)                                                      WORD(a), WORDS_13(__VA_ARGS__)
#define WORDS_15(a, ...)                                                      WORD(a), WORDS_14(__VA_ARGS__)
#define WORDS_16(a, ...)                                                      WORD(a), WORDS_15(__VA_ARGS__)
#define WORDS_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, name, ...) name
#define WORDS_OF(...)                                                                                               \
    WORDS_PICK(__VA_ARGS__, WORDS_16, WORDS_15, WORDS_14, WORDS_13, WORDS_12, WORDS_11, WORDS_10, WORDS_9, WORDS_8, \
               WORDS_7, WORDS_6, WORDS_5, WORDS_4, WORDS_3, WORDS_2, WORDS_1, )                                     \
    (__VA_ARGS__)
#define WORDS(...) __VA_OPT__(WORDS_OF(__VA_ARGS__))

#endif

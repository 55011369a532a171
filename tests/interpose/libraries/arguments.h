/*
 * arguments.h - a call's list of arguments as numbers: WORDS(a, b, c) gives "word of a, word of b, word of c,".
 */
#ifndef TESTS_INTERPOSE_LIBRARIES_ARGUMENTS_H
#define TESTS_INTERPOSE_LIBRARIES_ARGUMENTS_H

#include <stdint.h>

enum { ARGUMENTS_AT_MOST = 24 };

#define WORD(x)          (uint64_t)(uintptr_t)(x),
#define WORDS_1(x)       WORD(x)
#define WORDS_2(x, ...)  WORD(x) WORDS_1(__VA_ARGS__)
#define WORDS_3(x, ...)  WORD(x) WORDS_2(__VA_ARGS__)
#define WORDS_4(x, ...)  WORD(x) WORDS_3(__VA_ARGS__)
#define WORDS_5(x, ...)  WORD(x) WORDS_4(__VA_ARGS__)
#define WORDS_6(x, ...)  WORD(x) WORDS_5(__VA_ARGS__)
#define WORDS_7(x, ...)  WORD(x) WORDS_6(__VA_ARGS__)
#define WORDS_8(x, ...)  WORD(x) WORDS_7(__VA_ARGS__)
#define WORDS_9(x, ...)  WORD(x) WORDS_8(__VA_ARGS__)
#define WORDS_10(x, ...) WORD(x) WORDS_9(__VA_ARGS__)
#define WORDS_11(x, ...) WORD(x) WORDS_10(__VA_ARGS__)
#define WORDS_12(x, ...) WORD(x) WORDS_11(__VA_ARGS__)
#define WORDS_13(x, ...) WORD(x) WORDS_12(__VA_ARGS__)
#define WORDS_14(x, ...) WORD(x) WORDS_13(__VA_ARGS__)
#define WORDS_15(x, ...) WORD(x) WORDS_14(__VA_ARGS__)
#define WORDS_16(x, ...) WORD(x) WORDS_15(__VA_ARGS__)
#define WORDS_17(x, ...) WORD(x) WORDS_16(__VA_ARGS__)
#define WORDS_18(x, ...) WORD(x) WORDS_17(__VA_ARGS__)
#define WORDS_19(x, ...) WORD(x) WORDS_18(__VA_ARGS__)
#define WORDS_20(x, ...) WORD(x) WORDS_19(__VA_ARGS__)
#define WORDS_21(x, ...) WORD(x) WORDS_20(__VA_ARGS__)
#define WORDS_22(x, ...) WORD(x) WORDS_21(__VA_ARGS__)
#define WORDS_23(x, ...) WORD(x) WORDS_22(__VA_ARGS__)
#define WORDS_24(x, ...) WORD(x) WORDS_23(__VA_ARGS__)
#define WORDS_PICK(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, \
                   a22, a23, a24, name, ...)                                                                       \
    name
#define WORDS(...)                                                                                                    \
    WORDS_PICK(__VA_ARGS__, WORDS_24, WORDS_23, WORDS_22, WORDS_21, WORDS_20, WORDS_19, WORDS_18, WORDS_17, WORDS_16, \
               WORDS_15, WORDS_14, WORDS_13, WORDS_12, WORDS_11, WORDS_10, WORDS_9, WORDS_8, WORDS_7, WORDS_6,        \
               WORDS_5, WORDS_4, WORDS_3, WORDS_2, WORDS_1, )                                                         \
    (__VA_ARGS__)

#endif

/*
 * words.h - a call's list of arguments as numbers: WORDS(a, b, c) is "word of a, word of b, word of c". A struct is 0.
 */
#ifndef TESTS_INTERPOSE_WORDS_H
#define TESTS_INTERPOSE_WORDS_H

#include <cuda.h>
#include <stdint.h>

enum { ARGUMENTS_AT_MOST = 24 };

/* A macro does not expand within itself: WORDS_NEXT leaves the name of the next step, and each scan by WORDS_SCAN makes
 * one step more. */
#define WORD(value)        (uint64_t)(uintptr_t) _Generic((value), CUmemLocation : 0, default : (value))
#define WORDS_NEXT(a, ...) WORD(a) __VA_OPT__(, WORDS_AGAIN WORDS_EMPTY(__VA_ARGS__))
#define WORDS_EMPTY        ()
#define WORDS_AGAIN()      WORDS_NEXT
#define WORDS_SCAN(...)    WORDS_SCAN_3(WORDS_SCAN_3(WORDS_SCAN_3(__VA_ARGS__)))
#define WORDS_SCAN_3(...)  WORDS_SCAN_2(WORDS_SCAN_2(WORDS_SCAN_2(__VA_ARGS__)))
#define WORDS_SCAN_2(...)  WORDS_SCAN_1(WORDS_SCAN_1(WORDS_SCAN_1(__VA_ARGS__)))
#define WORDS_SCAN_1(...)  __VA_ARGS__
#define WORDS(...)         __VA_OPT__(WORDS_SCAN(WORDS_NEXT(__VA_ARGS__)))

#endif

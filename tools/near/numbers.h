/*
 * numbers.h - contents of memory as numbers: are those of the ranks one process's, a multiple of them, or its rows?
 * Pure.
 */
#ifndef DDPRUN_TOOLS_NEAR_NUMBERS_H
#define DDPRUN_TOOLS_NEAR_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of memory, as one process has had it. */
struct contents {
    uint64_t hash, bytes;
    const char *data;
};

/* Mistakes differ by more of a norm, rounding by less. */
#define NUMBERS_NEAR 1e-4

struct numbers {
    double *values; /* [count], malloc'ed */
    size_t count;
    bool are_whole;
    double unit; /* rounding of each, besides */
};
void numbers_free(const struct numbers *numbers);
#define OWNED_NUMBERS __attribute__((cleanup(numbers_free))) struct numbers

/* The type of element.h that bytes [first, end) have, by what they are. */
int numbers_guess_type(const struct contents *contents, uint64_t first, uint64_t end);

/* The numbers in bytes [first, end); `type` 0: not known. */
struct numbers numbers_read(const struct contents *contents, int type, uint64_t first, uint64_t end);

/* Of list[i] - factor * other[i]; other NULL: of list[i]. */
double numbers_norm(const double *list, const double *other, double factor, size_t count);

/* Each number is factor * the other one, nearly, and but for `unit`. */
bool numbers_are_near(const struct numbers *numbers, const struct numbers *other, double factor, double unit);

/* The same numbers in any order, or N times them, or that part of them; but for zeros, of which both may have more. */
bool numbers_are_rows(const struct numbers *all, const struct numbers *one, int ranks);

/* Whole numbers stay as they are. */
void numbers_weigh(struct numbers *own, double weight);
/* After those that are there; element by element. */
void numbers_append(struct numbers *all, const struct numbers *own);
void numbers_add(struct numbers *sum, const struct numbers *own);

#endif

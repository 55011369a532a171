/*
 * data.h - the images: read from a CSV file, split into training and test images, shuffled, gathered into batches.
 *
 * Host memory only. A file that cannot be used ends the program with exit code 1 and one line: file, line, what is
 * wrong.
 */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include "common/random.h"

#include <stddef.h>

enum { IMAGE_PIXELS = 64, CLASSES = 10 };

struct data {
    float *pixels; /* count * IMAGE_PIXELS, each 0..1 */
    int *labels;   /* count, each 0..CLASSES-1 */
    size_t count;
};

/*
 * Reads `path`: one image a line, 64 pixels of 0..16 and the digit, separated by commas. 80 percent of the images,
 * drawn in the same way in every run, go to *train, the rest to *test.
 */
void data_load(const char *path, struct data *train, struct data *test);

void data_free(struct data *data);

/* Puts order[0..count) into a random order. */
void data_shuffle(size_t *order, size_t count, struct random *random);

/* Copies the images order[0..count) of `data` to pixels and labels. */
void data_gather(const struct data *data, const size_t *order, size_t count, float *pixels, int *labels);

#endif

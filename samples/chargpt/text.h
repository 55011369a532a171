/*
 * text.h - a text as numbers: each of its different characters (bytes) is one; the last tenth is kept for validation.
 *
 * Host memory only. Used by the trainer and by the plain C reference.
 */
#ifndef CHARGPT_TEXT_H
#define CHARGPT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    unsigned char *tokens; /* 0..vocabulary-1 */
    size_t train_count, validation_count;
    unsigned char characters[256]; /* token -> character, in their order */
    int vocabulary;
};

/*
 * Reads a file. Both parts must hold more than `context` characters. Ends the program with exit code 1 and one line
 * "chargpt: file: what" if it cannot.
 */
void text_load(const char *path, size_t context, struct text *text);

void text_free(struct text *text);

/*
 * Batch `index` of the training with this seed: sequences first..first+count-1 of it, each at a random place of the
 * training part. inputs[count][context], and targets[][], the characters that follow. The same on every machine, and
 * without any state, so that a training can continue where it stopped.
 */
void text_batch(const struct text *text, uint64_t seed, uint64_t index, size_t first, size_t count, size_t context,
                int *inputs, int *targets);

/* Sequences first..first+count-1 of `total` that lie evenly over the validation part. */
void text_validation(const struct text *text, size_t total, size_t first, size_t count, size_t context, int *inputs,
                     int *targets);

#endif

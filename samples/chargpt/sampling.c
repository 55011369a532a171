/*
 * sampling.c - see sampling.h.
 */
#include "sampling.h"

#include "common/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Draws a token from softmax(logits / temperature). */
static int
draw(const float *logits, int count, float temperature, struct random *random)
{
    float largest = logits[0], shares[256], sum = 0.0f;
    for (int i = 1; i < count; ++i)
        largest = fmaxf(largest, logits[i]);
    for (int i = 0; i < count; ++i) {
        shares[i] = expf((logits[i] - largest) / temperature);
        sum += shares[i];
    }
    float left = sum * random_uniform(random);
    for (int i = 0; i < count; ++i) {
        left -= shares[i];
        if (left < 0.0f)
            return i;
    }
    return count - 1;
}

void
sampling_print(struct model *model, const struct text *text, size_t count, float temperature, uint64_t seed)
{
    const size_t context = (size_t)model->layout.shape.context;
    struct random random = random_seeded(seed + 2);
    float logits[256];
    int *seen =
        calloc(context, sizeof(int)); /* what the network sees; it begins with a line end, if the text has any */
    if (seen == NULL) {
        fprintf(stderr, "chargpt: out of host memory\n");
        exit(1);
    }
    const unsigned char *line_end = memchr(text->characters, '\n', (size_t)text->vocabulary);
    size_t length = 1;
    seen[0] = line_end != NULL ? (int)(line_end - text->characters) : 0;

    for (size_t i = 0; i < count; ++i) {
        model_input(model, seen, NULL, 1, length);
        model_forward(model);
        model_last_logits(model, logits);
        int token = draw(logits, text->vocabulary, temperature, &random);
        putchar(text->characters[token]);
        fflush(stdout);
        if (length == context)
            memmove(seen, seen + 1, (context - 1) * sizeof(int));
        else
            ++length;
        seen[length - 1] = token;
    }
    putchar('\n');
    free(seen);
}

/*
 * sampling.h - text from the network.
 */
#ifndef CHARGPT_SAMPLING_H
#define CHARGPT_SAMPLING_H

#include "model.h"
#include "text.h"

#include <stddef.h>
#include <stdint.h>

/* Writes `count` characters to stdout, and a line end. The same seed gives the same text. */
void sampling_print(struct model *model, const struct text *text, size_t count, float temperature, uint64_t seed);

#endif

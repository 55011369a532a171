/*
 * checkpoint.h - a training in a file, to continue with later: parameters, both moments of the optimizer, and the step.
 *
 * A header with a version, 3 x count floats in the machine's byte order, and a checksum of it all.
 */
#ifndef CHARGPT_CHECKPOINT_H
#define CHARGPT_CHECKPOINT_H

#include "model.h"
#include "text.h"

#include <stddef.h>

/*
 * Writes to a temporary name beside the target and renames it, so that no half-written file is ever seen. Ends the
 * program with exit code 1 and one line if that fails.
 */
void checkpoint_write(const char *path, struct model *model, const struct text *text, size_t step);

/*
 * Fills the model and returns the step after which it was saved. A file that is damaged, of another version, of a
 * network of another shape or of a text with other characters ends the program with exit code 1 and one line.
 */
size_t checkpoint_read(const char *path, struct model *model, const struct text *text);

#endif

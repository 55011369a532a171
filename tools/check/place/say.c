/* say.c - see rows.h. */
#include "tools/check/place/rows.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char place_same_update[] =
    "this argument of the update depends on the rank, the number of ranks or the share: if it is a learning rate, "
    "compute it from the step; if it is a norm of gradients, call DDP_STEP before the norm";

const char place_weigh_shares[] =
    "weigh the shares by this number: DDP_WEIGHT(number of the share, number of the batch) before backward";

const char place_reduce_value[] =
    "if this value is a count, such as the number of valid labels, call DDP_WEIGHT(count of the share, count of the "
    "batch) before backward; reduce any other value over the batch (DDP_REDUCE)";

const char place_add_first[] =
    "add `first` of DDP_SHARD to where each rank's share begins, and to a row's number in the share where positions or "
    "random numbers depend on it";

const char place_read_checkpoint[] =
    "use the same shuffle and the same seed on all ranks. If the program resumes, read its checkpoint on every rank: "
    "the step, the epoch and the state of the shuffle are in the host's memory, and no annotation sends them";

const char place_move_step[] =
    "if this operation clips gradients, searches them for infinities, or computes their sign, norm or a threshold, "
    "call DDP_STEP between backward and this operation; if it adds random numbers, use the same seed on all ranks";

void
place_begin(const char *name, bool is_probable, char text[PLACE_TEXT_BYTES], const char *format, ...)
{
    char how[480];
    va_list args;
    va_start(args, format);
    vsnprintf(how, sizeof(how), format, args);
    va_end(args);
    snprintf(text, PLACE_TEXT_BYTES, "%s is %sthe first operation that differs: %s", name,
             is_probable ? "probably " : "", how);
}

void
place_append(char text[PLACE_TEXT_BYTES], const char *format, ...)
{
    size_t length = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + length, PLACE_TEXT_BYTES - length, format, args);
    va_end(args);
}

/*
 * fuzz_mangled.c - target: the names of kernels, which compilers make. Required: no more parameters than there is room
 * for, and only pointers point to something.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/scout/format/log.h"

#include <stdlib.h>

enum { MOST = 64 };

void
fuzz_mangled(const uint8_t *bytes, size_t count)
{
    struct mangled_parameter parameters[MOST];
    char *name = fuzz_text(bytes, count);
    int said = mangled_parameters(name, parameters, MOST);
    fuzz_require(said >= -1 && said <= MOST, "no more than was asked for");
    for (int i = 0; i < said; ++i)
        fuzz_require(parameters[i].is_pointer || (parameters[i].pointee == SCOUT_UNKNOWN && !parameters[i].is_words),
                     "what is no pointer points to nothing");
    free(name);
}

/*
 * fuzz_mangled.c - target: the names of kernels, which compilers make. Required: a parameter that a name is said to be
 * a pointer to floats is one to the C++ library, which reads such names, too, if it can read this one.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/scout/format/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *__cxa_demangle(const char *name, char *text, size_t *length, int *status); /* of the C++ library */

enum { MOST = 64 };

/* Takes the last parameter off a list of them, "(float*, int"; NULL: there is none. */
static char *
take_last(char *list)
{
    int depth = 0;
    for (char *at = list + strlen(list); at-- > list;) {
        depth += *at == ')' || *at == '>';
        depth -= *at == '(' || *at == '<';
        if (depth > 0 || (*at != ',' && depth == 0))
            continue;
        *at = '\0';
        return at + 1;
    }
    return NULL;
}

/* Whether "float const*" is what was said of it. */
static bool
is_as_said(char *text, const struct mangled_parameter *parameter)
{
    static const char *const qualifiers[] = {" const", " volatile", " __restrict", " restrict"};
    static const char *const scalars[][6] = {[SCOUT_FLOAT32] = {"float", "float1", "float2", "float3", "float4"},
                                             [SCOUT_FLOAT64] = {"double", "double1", "double2", "double3", "double4"},
                                             [SCOUT_FLOAT16] = {"__half", "__half2"},
                                             [SCOUT_BFLOAT16] = {"__nv_bfloat16", "__nv_bfloat162"}};
    unsigned stars = 0;
    for (bool more = true; more;) {
        size_t length = strlen(text);
        more = length > 0 && text[length - 1] == '*';
        stars += more;
        if (more)
            text[length - 1] = '\0';
        for (size_t i = 0; i < 4 && !more; ++i) {
            size_t ends = strlen(qualifiers[i]);
            more = length > ends && strcmp(text + length - ends, qualifiers[i]) == 0;
            if (more)
                text[length - ends] = '\0';
        }
    }
    text += text[0] == ' ';
    uint32_t scalar = stars == 1 ? parameter->pointee : stars == 2 ? parameter->table : SCOUT_UNKNOWN;
    for (size_t i = 0; i < 6 && scalar != SCOUT_UNKNOWN; ++i)
        if (scalars[scalar][i] != NULL && strcmp(scalars[scalar][i], text) == 0)
            return true;
    return false;
}

void
fuzz_mangled(const uint8_t *bytes, size_t count)
{
    struct mangled_parameter parameters[MOST];
    char *name = fuzz_text(bytes, count), *text = NULL;
    int said = mangled_parameters(name, parameters, MOST), status = -1;
    fuzz_require(said >= -1 && said <= MOST, "no more than was asked for");
    if (said > 0)
        text = __cxa_demangle(name, NULL, NULL, &status);
    if (status == 0 && text[strlen(text) - 1] == ')') {
        text[strlen(text) - 1] = '\0';
        for (int i = said; i-- > 0;) {
            char *one = take_last(text);
            fuzz_require(one != NULL, "as many parameters as were said");
            if (parameters[i].pointee != SCOUT_UNKNOWN || parameters[i].table != SCOUT_UNKNOWN)
                fuzz_require(is_as_said(one, &parameters[i]), "a pointer to the floats that were said");
        }
    }
    free(text);
    free(name);
}

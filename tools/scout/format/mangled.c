/*
 * mangled.c - see log.h. The C++ library reads the names; here the parameters are taken from its text,
 * "void net::gemm<__half>(__half const*, int)".
 */
#include "tools/common/owned.h"
#include "tools/scout/format/log.h"

#include <dlfcn.h>
#include <pthread.h>

enum { TEXT_AT_MOST = 16384 };

typedef char *(*demangle_fn)(const char *name, char *text, size_t *room, int *status);
static demangle_fn demangle; /* NULL: there is no C++ library */

/* Looks for the demangler of libstdc++; `demangle` stays NULL where there is none. */
static void
find_library(void)
{
    static const char entry[] = "__cxa_demangle";
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL); /* for good: the program may have it, too */
    void *found = library != NULL ? dlsym(library, entry) : dlsym(RTLD_DEFAULT, entry);
    memcpy(&demangle, &found, sizeof(demangle));
}

/* Takes the last of "f(float*, int" off, or what "f" calls; NULL: the brackets have no partners. */
static char *
take_last(char *text, bool *is_first)
{
    int depth = 0;
    for (char *at = text + strlen(text); at-- > text;) {
        depth += strchr(")>]}", *at) != NULL;
        *is_first = depth == 0 && *at == '(';
        depth -= strchr("(<[{", *at) != NULL;
        if (*is_first || (depth == 0 && *at == ',')) {
            *at = '\0';
            return at + 1 + (at[1] == ' ');
        }
    }
    return NULL;
}

/* Cuts `end` off the end of the text. False: it does not end so, or is nothing else. */
static bool
cut(char *text, const char *end)
{
    size_t length = strlen(text), ends = strlen(end);
    if (length <= ends || strcmp(text + length - ends, end) != 0)
        return false;
    text[length - ends] = '\0';
    return true;
}

/* enum scout_type of a C++ type's name, vectors as their elements; SCOUT_UNKNOWN: none of a float. */
static uint32_t
element_of_scalar(const char *type)
{
    static const char *const classes[][6] = {
        [SCOUT_FLOAT32] = {"float", "float1", "float2", "float3", "float4"},
        [SCOUT_FLOAT64] = {"double", "double1", "double2", "double3", "double4"},
        [SCOUT_FLOAT16] = {"__half", "__half2", "_Float16"},
        [SCOUT_BFLOAT16] = {"__nv_bfloat16", "__nv_bfloat162", "std::bfloat16_t"},
    };
    for (uint32_t scalar = 0; scalar < sizeof(classes) / sizeof(classes[0]); ++scalar)
        for (size_t i = 0; i < 6 && classes[scalar][i] != NULL; ++i)
            if (strcmp(classes[scalar][i], type) == 0)
                return scalar;
    return SCOUT_UNKNOWN;
}

static bool
cut_qualifier(char *type)
{
    return cut(type, " const") || cut(type, " volatile") || cut(type, " __restrict") || cut(type, " restrict");
}

/* Behind "unsigned " or "signed ". */
static const char *
without_sign(const char *type)
{
    static const char *const signs[] = {"unsigned ", "signed "};
    FOR_EACH(sign, signs, sizeof(signs) / sizeof(signs[0]))
        if (strncmp(type, *sign, strlen(*sign)) == 0)
            return type + strlen(*sign);
    return type;
}

/* What a parameter's C++ type, which is cut as it is read, says of it: pointer or not, and the type of what it points
 * to. */
static struct mangled_parameter
read_type(char *type)
{
    static const char *const words[] = {"short", "int", "long", "long long"}, *const bytes[] = {"char", "bool"};
    unsigned stars = 0;
    for (bool is_star = cut(type, "*"); is_star || cut_qualifier(type); is_star = cut(type, "*"))
        stars += is_star;
    uint32_t scalar = element_of_scalar(type);
    struct mangled_parameter parameter = {
        .is_pointer = stars > 0 || strstr(type, "(*") != NULL,
        .pointee = stars == 1 ? scalar : SCOUT_UNKNOWN,
        .table = stars == 2 ? scalar : SCOUT_UNKNOWN,
    };
    const char *plain = without_sign(type);
    parameter.is_words = stars == 1 && ANY(word, words, sizeof(words) / sizeof(words[0]), strcmp(plain, *word) == 0);
    parameter.is_bytes = stars == 1 && ANY(word, bytes, sizeof(bytes) / sizeof(bytes[0]), strcmp(plain, *word) == 0);
    return parameter;
}

int
mangled_parameters(const char *name, struct mangled_parameter *parameters, int most)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int count = 0, status;
    OWNED char *text = NULL;
    (void)pthread_once(&once, find_library);
    if (demangle != NULL && strncmp(name, "_Z", 2) == 0)
        text = demangle(name, NULL, NULL, &status);
    bool is_known = text != NULL && strlen(text) < TEXT_AT_MOST && cut(text, ")"), is_first = false;
    while (is_known && !is_first) {
        char *type = take_last(text, &is_first);
        if (is_first && count == 0 && type[0] == '\0')
            break; /* it has none */
        is_known = type != NULL && count < most && strcmp(type, "...") != 0;
        if (is_known)
            parameters[count++] = read_type(type);
    }
    for (int i = 0; i < count / 2; ++i) { /* they came from the last to the first */
        struct mangled_parameter first = parameters[i];
        parameters[i] = parameters[count - 1 - i];
        parameters[count - 1 - i] = first;
    }
    return is_known ? count : -1;
}

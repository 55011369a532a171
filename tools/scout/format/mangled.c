/*
 * mangled.c - see log.h.
 *
 * Names abbreviate what they have said before by its number (S_, S0_), so every part that has one is counted, in the
 * order of the ABI. One part that was not counted would make others of all that follow: what is not known fails.
 */

#include "tools/scout/format/log.h"

#include <string.h>

enum { KNOWN_AT_MOST = 256, LIST_AT_MOST = 64, DEPTH_AT_MOST = 32 };

struct type {
    uint32_t scalar, pointee, table; /* enum scout_type: of the type itself, of what it points to, of what that does */
    bool is_word;                    /* a whole number of 16 bits or more */
    bool points_to_words, is_pointer;
    bool is_none; /* a number, or a pack: as the argument of a template only */
};

struct list {
    struct type items[LIST_AT_MOST];
    unsigned count;
};

struct parser {
    const char *at;
    unsigned depth;
    struct type known[KNOWN_AT_MOST]; /* S_, S0_, S1_ ... */
    unsigned known_count;
    const struct list *arguments; /* T_, T0_ ...: of the function; NULL: they are not known yet, or there are none */
};

static bool parse_type(struct parser *parser, struct type *type);

static bool
accept(struct parser *parser, char letter)
{
    if (*parser->at != letter)
        return false;
    ++parser->at;
    return true;
}

static bool
know(struct parser *parser, const struct type *type)
{
    if (parser->known_count == KNOWN_AT_MOST)
        return false;
    parser->known[parser->known_count++] = *type;
    return true;
}

static bool
is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

static bool
is_in_name(char letter)
{
    return is_digit(letter) || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') || letter == '_';
}

/* "_" is 0, "0_" is 1, "1_" is 2 ... in this base. */
static bool
parse_number(struct parser *parser, unsigned base, unsigned *number)
{
    *number = 0;
    if (accept(parser, '_'))
        return true;
    while (*parser->at != '_') {
        char letter = *parser->at++;
        unsigned digit = is_digit(letter) ? (unsigned)(letter - '0') : (unsigned)(letter - 'A') + 10;
        if ((!is_digit(letter) && (letter < 'A' || letter > 'Z')) || digit >= base || *number > KNOWN_AT_MOST)
            return false;
        *number = *number * base + digit;
    }
    ++parser->at;
    ++*number;
    return true;
}

/* "3sgd": its beginning and its length. */
static bool
parse_word(struct parser *parser, const char **word, size_t *length)
{
    (void)accept(parser, 'L'); /* of one source file only */
    *length = 0;
    if (*parser->at < '1' || *parser->at > '9')
        return false;
    while (is_digit(*parser->at) && *length < 4096)
        *length = *length * 10 + (size_t)(*parser->at++ - '0');
    *word = parser->at;
    for (size_t i = 0; i < *length; ++i)
        if (!is_in_name(parser->at[i]) || (i == 0 && is_digit(parser->at[i])))
            return false;
    parser->at += *length;
    return *parser->at != 'B'; /* a tag of the ABI */
}

/* What a class of CUDA's own, in no namespace, holds. */
static uint32_t
scalar_of_class(const char *word, size_t length)
{
    static const struct {
        const char *name;
        uint32_t scalar;
    } classes[] = {
        {"float1", SCOUT_FLOAT32},  {"float2", SCOUT_FLOAT32},         {"float3", SCOUT_FLOAT32},
        {"float4", SCOUT_FLOAT32},  {"double1", SCOUT_FLOAT64},        {"double2", SCOUT_FLOAT64},
        {"double3", SCOUT_FLOAT64}, {"double4", SCOUT_FLOAT64},        {"__half", SCOUT_FLOAT16},
        {"__half2", SCOUT_FLOAT16}, {"__nv_bfloat16", SCOUT_BFLOAT16}, {"__nv_bfloat162", SCOUT_BFLOAT16},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i)
        if (strlen(classes[i].name) == length && memcmp(classes[i].name, word, length) == 0)
            return classes[i].scalar;
    return SCOUT_UNKNOWN;
}

static bool
add_type(struct list *list, const struct type *type)
{
    if (list->count == LIST_AT_MOST)
        return false;
    list->items[list->count++] = *type;
    return true;
}

/* "Lb1E", "Li256E", behind its L. */
static bool
parse_literal(struct parser *parser)
{
    struct type type;
    if (*parser->at == '_' || !parse_type(parser, &type))
        return false;
    (void)accept(parser, 'n');
    while (is_digit(*parser->at))
        ++parser->at;
    return accept(parser, 'E');
}

/* Behind the I. */
static bool
parse_arguments(struct parser *parser, struct list *list)
{
    static const struct type none = {.is_none = true};
    list->count = 0;
    while (!accept(parser, 'E')) {
        struct type type = none;
        struct list pack;
        bool parsed;
        if (accept(parser, 'L'))
            parsed = parse_literal(parser);
        else if (accept(parser, 'J'))
            parsed = ++parser->depth < DEPTH_AT_MOST && parse_arguments(parser, &pack) && parser->depth-- > 0;
        else
            parsed = parse_type(parser, &type);
        if (!parsed || !add_type(list, &type))
            return false;
    }
    return true;
}

/* The arguments of a template whose name was parsed: another class. */
static bool
parse_class_arguments(struct parser *parser, struct type *type)
{
    struct list list;
    *type = (struct type){0};
    return parse_arguments(parser, &list) && know(parser, type);
}

/* Behind the S: what was said before, or std. *is_std: a word must follow. */
static bool
parse_known(struct parser *parser, struct type *type, bool *is_std)
{
    unsigned number;
    *type = (struct type){0};
    *is_std = accept(parser, 't');
    if (*is_std)
        return true;
    if (*parser->at != '\0' && strchr("absiod", *parser->at) != NULL) { /* allocator, strings, streams */
        ++parser->at;
        return true;
    }
    if (!parse_number(parser, 36, &number) || number >= parser->known_count)
        return false;
    *type = parser->known[number];
    return true;
}

/* Behind the N, up to its E. The last part of a function has no number; *arguments: those that it ends with, if it is
 * of a template. */
static bool
parse_nested(struct parser *parser, bool is_function, struct type *type, struct list *arguments, bool *is_template)
{
    const char *word;
    size_t length;
    bool is_std = false, any = false;
    *type = (struct type){0};
    if (accept(parser, 'S') && !parse_known(parser, type, &is_std))
        return false;
    while (*parser->at != 'E') {
        *is_template = any && accept(parser, 'I');
        if (!(*is_template ? parse_arguments(parser, arguments) : parse_word(parser, &word, &length)))
            return false;
        *type = (struct type){0};
        any = true;
        if (!(is_function && *parser->at == 'E') && !know(parser, type))
            return false;
        if (*is_template && *parser->at == 'I')
            return false;
    }
    ++parser->at;
    return any;
}

static bool
parse_class(struct parser *parser, struct type *type)
{
    const char *word;
    size_t length;
    bool is_std = false, is_template;
    struct list arguments;
    if (accept(parser, 'N'))
        return parse_nested(parser, false, type, &arguments, &is_template);
    if (accept(parser, 'S')) {
        if (!parse_known(parser, type, &is_std))
            return false;
        if (!is_std)
            return !accept(parser, 'I') || parse_class_arguments(parser, type);
    }
    if (!parse_word(parser, &word, &length))
        return false;
    bool is_cudas = !is_std && *parser->at != 'I';
    *type = (struct type){.scalar = is_cudas ? scalar_of_class(word, length) : SCOUT_UNKNOWN};
    return know(parser, type) && (!accept(parser, 'I') || parse_class_arguments(parser, type));
}

/* Behind the F: result and parameters. */
static bool
parse_function(struct parser *parser, struct type *type)
{
    for (unsigned count = 0; count == 0 || !accept(parser, 'E'); ++count)
        if (!parse_type(parser, type))
            return false;
    *type = (struct type){0};
    return know(parser, type);
}

/* Behind the T: an argument of the function. */
static bool
parse_argument(struct parser *parser, struct type *type)
{
    unsigned number;
    if (parser->arguments == NULL || !parse_number(parser, 10, &number) || number >= parser->arguments->count ||
        *parser->at == 'I')
        return false;
    *type = parser->arguments->items[number];
    return !type->is_none && know(parser, type);
}

static bool
parse_builtin(struct parser *parser, struct type *type)
{
    *type = (struct type){0};
    if (accept(parser, 'D'))
        return accept(parser, 'n'); /* nullptr_t */
    if (*parser->at == '\0' || strchr("vwbcahstijlmxynofdeg", *parser->at) == NULL)
        return false;
    char letter = *parser->at++;
    type->is_word = strchr("stijlmxy", letter) != NULL;
    type->scalar = letter == 'f' ? SCOUT_FLOAT32 : letter == 'd' ? SCOUT_FLOAT64 : SCOUT_UNKNOWN;
    return true;
}

static bool
parse_compound(struct parser *parser, struct type *type)
{
    struct type inner;
    char letter = *parser->at++;
    if (letter == 'F')
        return parse_function(parser, type);
    if (letter == 'T')
        return parse_argument(parser, type);
    bool is_qualified = strchr("rVK", letter) != NULL; /* all qualifiers together have one number */
    while (is_qualified && *parser->at != '\0' && strchr("rVK", *parser->at) != NULL)
        ++parser->at;
    if (!parse_type(parser, &inner))
        return false;
    *type = (struct type){0};
    if (letter == 'P')
        *type = (struct type){
            .is_pointer = true, .points_to_words = inner.is_word, .pointee = inner.scalar, .table = inner.pointee};
    else if (is_qualified)
        *type = inner;
    return know(parser, type);
}

static bool
parse_type(struct parser *parser, struct type *type)
{
    bool parsed;
    if (parser->depth == DEPTH_AT_MOST)
        return false;
    ++parser->depth;
    if (is_digit(*parser->at) || *parser->at == 'N' || *parser->at == 'S')
        parsed = parse_class(parser, type);
    else if (*parser->at != '\0' && strchr("PROFTrVK", *parser->at) != NULL)
        parsed = parse_compound(parser, type);
    else
        parsed = parse_builtin(parser, type);
    --parser->depth;
    return parsed;
}

/* The function's own name. */
static bool
parse_function_name(struct parser *parser, struct list *arguments, bool *is_template)
{
    struct type type = {0};
    const char *word;
    size_t length;
    *is_template = false;
    if (accept(parser, 'N'))
        return parse_nested(parser, true, &type, arguments, is_template);
    if (!parse_word(parser, &word, &length))
        return false;
    *is_template = accept(parser, 'I');
    return !*is_template || (know(parser, &type) && parse_arguments(parser, arguments));
}

int
mangled_parameters(const char *name, struct mangled_parameter *parameters, int most)
{
    struct list arguments;
    bool is_template;
    if (strncmp(name, "_Z", 2) != 0)
        return -1;
    struct parser parser = {.at = name + 2};
    if (!parse_function_name(&parser, &arguments, &is_template))
        return -1;
    parser.arguments = is_template ? &arguments : NULL;
    if (is_template && !accept(&parser, 'v')) /* the result: a kernel has none */
        return -1;
    if (strcmp(parser.at, "v") == 0)
        return 0;
    int count = 0;
    do {
        struct type type;
        if (count == most || *parser.at == 'v' || !parse_type(&parser, &type))
            return -1;
        parameters[count++] = (struct mangled_parameter){.is_pointer = type.is_pointer,
                                                         .is_words = type.points_to_words,
                                                         .pointee = type.pointee,
                                                         .table = type.table};
    } while (*parser.at != '\0');
    return count;
}

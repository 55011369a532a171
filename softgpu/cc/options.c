/*
 * options.c - see options.h. Reads command lines by the table of option_table.c.
 *
 * nvcc takes `--long value`, `--long=value`, `-long value`, `-long=value`, and for a few short options the value glued
 * on (-Idir, -DX, -O3).
 */
#include "option_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether `argument` is the option called `name` after `dashes`, alone or with "=value". */
static bool
matches(const char *argument, const char *dashes, const char *name, const char **value_p)
{
    if (name == NULL || strncmp(argument, dashes, strlen(dashes)) != 0)
        return false;
    argument += strlen(dashes);
    if (strncmp(argument, name, strlen(name)) != 0)
        return false;
    argument += strlen(name);
    *value_p = *argument == '=' ? argument + 1 : NULL;
    return *argument == '\0' || *argument == '=';
}

/* The option that `argument` names, with the value that is part of it, or NULL in *value_p. */
static const struct option *
find_option(const char *argument, const char **value_p)
{
    for (size_t i = 0; i < option_count; ++i) {
        const struct option *option = &option_table[i];
        if (matches(argument, "--", option->long_name, value_p) || matches(argument, "-", option->short_name, value_p))
            return option;
    }
    for (size_t i = 0; i < option_count; ++i) {
        const struct option *option = &option_table[i];
        const size_t length = option->short_name != NULL ? strlen(option->short_name) : 0;
        const bool is_number = strchr("0123456789", argument[2]) != NULL;
        if (option->kind == VALUE_GLUED_NUMBER && !is_number)
            continue; /* -march=native is for the host compiler */
        if (option->kind >= VALUE_GLUED && length == 1 && argument[1] == option->short_name[0]) {
            *value_p = argument + 2;
            return option;
        }
    }
    return NULL;
}

static bool
is_boolean(const char *word)
{
    return word != NULL && (strcmp(word, "true") == 0 || strcmp(word, "false") == 0);
}

static enum language
language_of(const struct options *options, const char *path)
{
    static const struct {
        const char *ending;
        enum language language;
    } endings[] = {{".cu", LANGUAGE_CUDA},
                   {".cc", LANGUAGE_CXX},
                   {".cpp", LANGUAGE_CXX},
                   {".cxx", LANGUAGE_CXX},
                   {".c", LANGUAGE_C}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof(endings) / sizeof(endings[0]); ++i) {
        if (strcmp(dot, endings[i].ending) == 0) {
            if (options->forced_language == NULL)
                return endings[i].language;
            break;
        }
    }
    if (options->forced_language == NULL ||
        (dot != NULL && (strcmp(dot, ".o") == 0 || strcmp(dot, ".a") == 0 || strcmp(dot, ".so") == 0)))
        return LANGUAGE_OBJECT;
    if (strcmp(options->forced_language, "cu") == 0)
        return LANGUAGE_CUDA;
    return strcmp(options->forced_language, "c") == 0 ? LANGUAGE_C : LANGUAGE_CXX;
}

/* What cannot be honoured is named, with the way round where there is one. */
static bool
refuse(const char *argument)
{
    static const char *const host_options[] = {"-f", "-W", "-p", "-static", "-m", "-no", "-rdynamic"};
    if (argument[0] == '-' && argument[1] != '-') {
        for (size_t i = 0; i < sizeof(host_options) / sizeof(host_options[0]); ++i) {
            if (strncmp(argument, host_options[i], strlen(host_options[i])) == 0) {
                const bool is_link = strncmp(argument, "-Wl,", 4) == 0;
                complain("unknown option '%s'; if it is for the %s, write %s %s", argument,
                         is_link ? "linker" : "host compiler", is_link ? "-Xlinker" : "-Xcompiler",
                         is_link ? argument + 4 : argument);
                return false;
            }
        }
    }
    complain("unknown option '%s'; softgpu-cc --help lists what it knows", argument);
    return false;
}

static bool
is_host_warning(const char *argument)
{
    return strncmp(argument, "-Wno-", 5) == 0;
}

static bool
read_unknown(struct options *options, const char *argument)
{
    if (!options->forward_unknown && !options->forward_to_linker && !is_host_warning(argument))
        return refuse(argument);
    bool is_for_linker = !options->forward_unknown && options->forward_to_linker;
    if (!is_for_linker && strncmp(argument, "-Wl,", 4) != 0) {
        list_add(&options->host, argument);
        return true;
    }
    /* Items, for their place matters. The linker itself gets it, as from nvcc. */
    if (is_for_linker && strncmp(argument, "-W", 2) != 0)
        options_add_item(options, false, LANGUAGE_OBJECT, "-Xlinker");
    options_add_item(options, false, LANGUAGE_OBJECT, argument);
    return true;
}

static bool read_arguments(struct options *options, const struct list *arguments);

/* The arguments in a file, written as for a shell. */
static bool
read_file(struct options *options, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        complain("cannot read the options file %s: %s", path, strerror(errno));
        return false;
    }
    struct text text = {0};
    char buffer[4096];
    text_append(&text, "", 0);
    size_t got = fread(buffer, 1, sizeof(buffer), file);
    for (; got > 0; got = fread(buffer, 1, sizeof(buffer), file))
        text_append(&text, buffer, got);
    fclose(file);
    struct list arguments = {0};
    list_add_words(&arguments, text.data);
    text_free(&text);
    const bool ok = read_arguments(options, &arguments);
    list_free(&arguments);
    return ok;
}

/* FILE[,FILE...] */
static bool
read_files(struct options *options, const char *value)
{
    struct list files = {0};
    list_add_commas(&files, value);
    bool ok = true;
    for (size_t i = 0; i < files.count && ok; ++i)
        ok = read_file(options, files.items[i]);
    list_free(&files);
    return ok;
}

/* A name in quotes is the name: nvcc gives its words to a shell, and build systems rely on that. */
static void
add_input(struct options *options, const char *name)
{
    const size_t length = strlen(name);
    const bool is_quoted = length > 2 && name[0] == '"' && name[length - 1] == '"';
    char *plain = is_quoted ? text_format("%.*s", (int)(length - 2), name + 1) : text_format("%s", name);
    options_add_item(options, true, LANGUAGE_OBJECT, plain);
    free(plain);
}

/* Reads arguments[*at] and what belongs to it. */
static bool
read_argument(struct options *options, const struct list *arguments, size_t *at)
{
    const char *argument = arguments->items[*at];
    const char *next = *at + 1 < arguments->count ? arguments->items[*at + 1] : NULL;
    const char *value = NULL;
    if (options->is_linker && argument[0] == '@')
        return read_file(options, argument + 1); /* as host compilers have it */
    if (argument[0] != '-' || argument[1] == '\0') {
        add_input(options, argument);
        return true;
    }
    const struct option *option = find_option(argument, &value);
    if (option == NULL)
        return read_unknown(options, argument);
    if (option->kind == VALUE_NONE) {
        value = value != NULL ? value : "true";
    } else if (option->kind == VALUE_SWITCH && value == NULL) {
        if (is_boolean(next))
            ++*at;
        value = is_boolean(next) ? next : "true";
    } else if (value == NULL) {
        if (next == NULL) {
            complain("the option '%s' needs a value", argument);
            return false;
        }
        value = next;
        ++*at;
    }
    if (option->kind == VALUE_FILES)
        return read_files(options, value);
    return option->apply == NULL || option->apply(options, value);
}

/* In their order. False after a message. */
static bool
read_arguments(struct options *options, const struct list *arguments)
{
    for (size_t i = 0; i < arguments->count; ++i) {
        if (!read_argument(options, arguments, &i))
            return false;
    }
    return true;
}

/* -forward-unknown-to-host-compiler and its relatives hold for what stands before them too. */
static void
look_ahead(struct options *options, const struct list *arguments)
{
    for (size_t i = 0; i < arguments->count; ++i) {
        const char *value;
        const struct option *option = arguments->items[i][0] == '-' ? find_option(arguments->items[i], &value) : NULL;
        if (option != NULL && strncmp(option->long_name, "forward-unknown-", strlen("forward-unknown-")) == 0)
            (void)option->apply(options, "true");
    }
}

bool
options_read(struct options *options, const struct list *arguments)
{
    struct list all = {0};
    const char *before = getenv("NVCC_PREPEND_FLAGS"), *behind = getenv("NVCC_APPEND_FLAGS");
    if (before != NULL)
        list_add_words(&all, before);
    list_add_all(&all, arguments);
    if (behind != NULL)
        list_add_words(&all, behind);
    options->forward_unknown = options->is_linker;
    look_ahead(options, &all);
    const bool ok = read_arguments(options, &all);
    list_free(&all);
    for (size_t i = 0; i < options->item_count; ++i) {
        if (options->items[i].is_input)
            options->items[i].language = language_of(options, options->items[i].text);
    }
    return ok;
}

void
options_help(void)
{
    printf("Usage: softgpu-cc [options] file...\n\n"
           "Compiles CUDA C++ for the CPU stand-in of the CUDA libraries; takes nvcc's place on a command line.\n"
           "Inputs: .cu (CUDA), .cpp .cc .cxx (C++), .c (C), .o .a .so and others (for the linker).\n\n");
    for (size_t i = 0; i < option_count; ++i) {
        const struct option *option = &option_table[i];
        if (option->help == NULL)
            continue;
        char *names = option->short_name != NULL && strcmp(option->short_name, option->long_name) != 0
                          ? text_format("--%s, -%s", option->long_name, option->short_name)
                          : text_format("--%s", option->long_name);
        printf("  %-46s %s\n", names, option->help);
        free(names);
    }
    printf(
        "\nCUDA source is compiled with -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast, without -march: "
        "results are the\n"
        "same on all machines of an architecture. -Xcompiler -march=native makes faster code for this machine only.\n"
        "Environment: NVCC_CCBIN, NVCC_PREPEND_FLAGS, NVCC_APPEND_FLAGS, CUDA_HOME (headers), TMPDIR.\n");
}

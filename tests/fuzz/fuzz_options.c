/*
 * fuzz_options.c - targets: the command line, its settings in the environment, and the command line of a tool;
 * lists of GPUs; substitution in arguments.
 *
 * Required: an answer is a job that makes sense, or one error with exit code 2. Never: to read other files than the
 * given one.
 */
#include "tests/fuzz/fuzz.h"

#include "base/protocol.h"
#include "launcher/options/option_table.h"
#include "launcher/options/options.h"
#include "tools/check/command/check.h"
#include "tools/trace/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_AT_MOST = 64 };

static void
require_sound(const struct options *options)
{
    fuzz_require(options->rank_count >= 0 && options->rank_count <= OPTIONS_MOST_RANKS,
                 "a number of ranks is in its bounds");
    fuzz_require(options->program != NULL && options->program[0] != NULL, "there is a program");
    fuzz_require(options->timeout_s >= 1, "ranks have time");
    fuzz_require(options->job.reduction < DDPRUN_REDUCTION_COUNT && options->job.commit < DDPRUN_COMMIT_COUNT &&
                     options->job.compression < DDPRUN_COMPRESSION_COUNT,
                 "reductions and compressions are known ones");
    fuzz_require(options->job.bucket_bytes < (uint64_t)1 << 60, "buckets have a size");
}

static void
parse(int argc, char **argv)
{
    static const struct command check = {
        .name = "check", .example = "ddprun check ./train", .reset = check_options_reset};
    struct options options;
    struct error error;
    if (option_mixed == NULL)
        options_mix(&check, check_rows);
    switch (options_parse(argc, argv, &options, &error)) {
    case OPTIONS_RUN:
        require_sound(&options);
        break;
    case OPTIONS_BAD:
        fuzz_require_error(&error, DDPRUN_EXIT_USAGE);
        break;
    default:
        break;
    }
    options_free(&options);
}

/* The words as the command line of a tool that mixes options with other words. */
static void
parse_tool(int argc, char **argv)
{
    static const struct command picture = {.name = "trace", .rows = picture_rows, .mixes = true};
    struct picture_request file = {0};
    struct error error;
    int rest = 0;
    enum options_result result = command_parse(&picture, argc, argv, &file, &rest, &error);
    fuzz_require(result == OPTIONS_RUN || result == OPTIONS_HELP || result == OPTIONS_BAD, "a known answer");
    if (result == OPTIONS_BAD)
        fuzz_require_error(&error, DDPRUN_EXIT_USAGE);
    fuzz_require(result != OPTIONS_RUN || (rest >= 1 && rest <= argc && (file.file == NULL || file.file[0] != '\0')),
                 "a file has a name");
}

/* Each line a word; those in front that look like a variable of the environment are one. */
void
fuzz_options(const uint8_t *bytes, size_t count)
{
    char *text = fuzz_text(bytes, count), *rest = text, *words[WORDS_AT_MOST + 2] = {"ddprun"}, *set[WORDS_AT_MOST];
    int word_count = 1, set_count = 0;
    for (char *word;
         (word = strsep(&rest, "\n")) != NULL && word_count <= WORDS_AT_MOST && set_count < WORDS_AT_MOST;) {
        char *equals = strchr(word, '=');
        if (word_count == 1 && strncmp(word, "DDPRUN_", 7) == 0 && equals != NULL) {
            *equals = '\0';
            setenv(word, equals + 1, 1);
            set[set_count++] = word;
        } else {
            words[word_count++] = word;
        }
    }
    parse(word_count, words);
    words[word_count] = NULL;
    parse_tool(word_count, words);
    for (int i = 0; i < set_count; ++i)
        unsetenv(set[i]);
    free(text);
}

/* What was understood is understood again, the same, when it is written down. */
void
fuzz_gpu_list(const uint8_t *bytes, size_t count)
{
    char *text = fuzz_text(bytes, count), *again;
    struct word_list list = {0}, second = {0};
    struct error error;
    size_t used = 0;
    if (!gpu_list_parse(text, &list, &error)) {
        fuzz_require_error(&error, DDPRUN_EXIT_USAGE);
        free(text);
        return;
    }
    fuzz_require(list.count >= 1, "a list names a GPU");
    size_t room = 1;
    for (size_t i = 0; i < list.count; ++i)
        room += strlen(list.list[i]) + 1;
    again = malloc(room);
    for (size_t i = 0; i < list.count; ++i)
        used += (size_t)snprintf(again + used, room - used, "%s%s", i > 0 ? "," : "", list.list[i]);
    fuzz_require(gpu_list_parse(again, &second, &error), "a list written down is a list");
    fuzz_require(second.count == list.count, "it has the same length");
    for (size_t i = 0; i < list.count; ++i)
        fuzz_require(strcmp(list.list[i], second.list[i]) == 0, "it names the same GPUs");
    words_free(list.list);
    words_free(second.list);
    free(again);
    free(text);
}

/* The plain way to do the same: the longest-known name at each place, one after the other. */
static void
substitute_slowly(const char *text, const struct places *places, char *to)
{
    const char *const names[] = {"{rank}", "{local_rank}", "{world_size}"};
    const int numbers[] = {places->rank, places->local_rank, places->world_size};
    while (*text != '\0') {
        int i = 0;
        while (i < 3 && strncmp(text, names[i], strlen(names[i])) != 0)
            ++i;
        if (i < 3) {
            to += sprintf(to, "%d", numbers[i]);
            text += strlen(names[i]);
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
}

void
fuzz_substitute(const uint8_t *bytes, size_t count)
{
    const struct places places[] = {{0, 0, 1}, {2147483647, 2147483647, 2147483647}, {7, 3, 1024}};
    char *text = fuzz_text(bytes, count), *expected = malloc(4 * count + 16);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); ++i) {
        char *result = substitute_text(text, &places[i]);
        substitute_slowly(text, &places[i], expected);
        fuzz_require(strcmp(result, expected) == 0, "names are replaced, and nothing else");
        free(result);
    }
    free(expected);
    free(text);
}

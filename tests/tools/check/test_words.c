/*
 * test_words.c - --alone is split into the words that a shell makes of it: a table, and for random lines the
 * shell's own.
 */
#include "tools/check/command/session.h"

#include "base/protocol.h"

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 150, MOST = 8 };

static void
free_words(char **words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; ++i)
        free(words[i]);
    free(words);
}

static const struct line {
    const char *text;
    const char *words[MOST];
} lines[] = {
    {"", {NULL}},
    {" \t\n ", {NULL}},
    {"a", {"a"}},
    {"  --batch  64\t--quiet ", {"--batch", "64", "--quiet"}},
    {"'a b' c", {"a b", "c"}},
    {"\"a b\" c", {"a b", "c"}},
    {"a'b c'd", {"ab cd"}},
    {"'' \"\"", {"", ""}},
    {"''a", {"a"}},
    {"'a\"b' \"c'd\"", {"a\"b", "c'd"}},
    {"a\\ b \\'c\\' \\\"", {"a b", "'c'", "\""}},
    {"\"a\\\"b\" \"\\$x \\`y\\` \\\\\"", {"a\"b", "$x `y` \\"}},
    {"\"\\n\" '\\n' \\n", {"\\n", "\\n", "n"}}, /* as they are; and an escape outside of quotes */
    {"$HOME *.c ~ `x` a;b|c>d #e", {"$HOME", "*.c", "~", "`x`", "a;b|c>d", "#e"}},
    {"a\\", {"a\\"}},
};

TABLE_TEST(lines_become_words, lines)
{
    const struct line *line = &lines[_i];
    struct error error;
    char **words = words_split("./train", line->text, &error);
    ck_assert_ptr_nonnull(words);
    ck_assert_str_eq(words[0], "./train");
    size_t i = 0;
    for (; line->words[i] != NULL; ++i) {
        ck_assert_msg(words[i + 1] != NULL, "<%s>: %zu words", line->text, i);
        ck_assert_str_eq(words[i + 1], line->words[i]);
    }
    ck_assert_ptr_null(words[i + 1]);
    free_words(words);
}

TEST(a_quote_that_is_not_closed_is_refused)
{
    static const char *const open[] = {"'", "\"", "a 'b", "a 'b\"c\" d", "\"a\\\"", "'a' 'b", "a \"b 'c' d", "\"\\"};
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); ++i) {
        struct error error = {0};
        ck_assert_msg(words_split("./train", open[i], &error) == NULL, "<%s>", open[i]);
        ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
        ck_assert(strstr(error.text, "--alone") != NULL && strchr(error.text, '\n') == NULL);
    }
}

/* Prints what sh makes of the line, each word and a newline; NULL: it refuses the line. */
static FILE *
ask_shell(const char *line)
{
    char *command;
    size_t bytes;
    FILE *text = open_memstream(&command, &bytes);
    fprintf(text, "set -f; printf '<%%s>\\n' ./train %s", line);
    fclose(text);
    FILE *answer = popen(command, "re");
    free(command);
    return answer;
}

LOOP_TEST(words_are_the_shell_s, 0, CASES)
{
    static const char letters[] = "aab \t'\"\\-=."; /* nothing that a shell expands or that ends a command */
    char line[24] = "", found[400] = "", expected[400] = "";
    unsigned seed = (unsigned)_i;
    size_t length = (size_t)rand_r(&seed) % (sizeof(line) - 1);
    for (size_t i = 0; i < length; ++i)
        line[i] = letters[(size_t)rand_r(&seed) % (sizeof(letters) - 1)];
    if (length > 0 && line[length - 1] == '\\') /* which is an escape of what follows the line */
        line[length - 1] = 'z';
    struct error error;
    char **words = words_split("./train", line, &error);
    if (words == NULL) /* shells wait for the rest, or print what they like */
        return;
    for (size_t i = 0; words[i] != NULL; ++i) {
        strcat(strcat(strcat(found, "<"), words[i]), ">\n");
    }
    free_words(words);
    FILE *answer = ask_shell(line);
    ck_assert_ptr_nonnull(answer);
    size_t got = fread(expected, 1, sizeof(expected) - 1, answer);
    expected[got] = '\0';
    ck_assert_int_eq(pclose(answer), 0);
    ck_assert_msg(strcmp(found, expected) == 0, "of %s the shell makes\n%sand --alone\n%s", line, expected, found);
}

/*
 * test_commands.c - what ddprun and each of its commands have in common: help and completion show every option that the
 * parser takes; help fits a terminal; a name that is mistyped gets the nearest one, and no other; what is refused gets
 * one line.
 */
#include "base/protocol.h"
#include "launcher/options/option_table.h"
#include "tools/check/command/check.h"
#include "tools/commands.h"
#include "tools/common/tool_options.h"
#include "tools/scout/command/run.h"

#include "tests/lib/test.h"

enum { MOST_WORDS = 16, COMMANDS = 5 };

/* Large enough for every command's own struct; values are not looked at. */
static union {
    struct options options;
    char bytes[1 << 16];
} target;

/* What `print` writes, to be freed. */
static char *
text_of(void (*print)(FILE *out, const void *of), const void *of)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    print(out, of);
    fclose(out);
    return text;
}

static void
print_help(FILE *out, const void *command)
{
    command_print_help(out, command);
}

static void
print_short(FILE *out, const void *unused)
{
    (void)unused;
    options_print_help(out);
}

static void
print_all(FILE *out, const void *unused)
{
    (void)unused;
    options_print_help_all(out, commands);
}

static void
print_list(FILE *out, const void *unused)
{
    (void)unused;
    commands_print(out, commands);
}

static void
print_completion(FILE *out, const void *unused)
{
    (void)unused;
    commands_print_completion(out, commands);
}

static int
require_fits(const char *text, size_t columns)
{
    int lines = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1, ++lines)
        ck_assert_msg(strcspn(line, "\n") <= columns, "too long: %.110s", line);
    return lines;
}

/* A value that the option takes. */
static const char *
sample_of(const struct option_row *row, char *text, size_t bytes)
{
    static const struct {
        const char *argument, *value;
    } special[] = {{"N", "2"},
                   {"LIST", "1,2"},
                   {"NAME|NETWORK", "lo"},
                   {"A-B", "5-9"},
                   {"NAME=VALUE", "A=1"},
                   {"WHICH", "none"},
                   {"ARGS", "x"},
                   {"X", "1"},
                   {"BANDWIDTH,LATENCY", "100Gbit,5us"}};
    if (row->argument == NULL)
        return NULL;
    for (size_t i = 0; row->kind == OPTION_SPECIAL && i < sizeof(special) / sizeof(special[0]); ++i) {
        if (strcmp(special[i].argument, row->argument) == 0)
            return special[i].value;
    }
    if (row->kind == OPTION_WHOLE)
        snprintf(text, bytes, "%.0f", row->most);
    else if (row->kind == OPTION_REAL || row->kind == OPTION_MIB)
        snprintf(text, bytes, "%g", (row->least + row->most) / 2);
    else
        snprintf(text, bytes, "%.*s", (int)strcspn(row->argument, "|"), row->argument);
    return text;
}

static enum options_result
parse(const struct command *command, const char *one, const char *other, struct error *error)
{
    char *words[MOST_WORDS] = {"ddprun"};
    int count = 1, rest = 0;
    words[count++] = (char *)(uintptr_t)one;
    if (other != NULL)
        words[count++] = (char *)(uintptr_t)other;
    words[count++] = "./train";
    memset(&target, 0, sizeof(target));
    enum options_result result = command_parse(command, count, words, &target, &rest, error);
    if (result == OPTIONS_RUN)
        ck_assert_int_eq(rest, count - 1);
    if (command->rows == option_rows)
        options_free(&target.options);
    return result;
}

static void
require_option(const struct command *command, const struct option_row *row, const char *help, const char *completion)
{
    char name[64], value[64], line[160];
    struct error error = {0};
    snprintf(name, sizeof(name), "--%s", row->name);
    enum options_result wanted = row->kind == OPTION_ANSWER ? (enum options_result)row->answer : OPTIONS_RUN;
    ck_assert_msg(parse(command, name, sample_of(row, value, sizeof(value)), &error) == wanted, "%s of '%s': %s", name,
                  command->name, error.text);
    snprintf(line, sizeof(line), "--%s%s%s", row->name, row->argument != NULL ? " " : "",
             row->argument != NULL ? row->argument : "");
    if (row->group == command->group || command == &ddprun_command)
        ck_assert_msg(strstr(help, line) != NULL, "no %s in the help of '%s'", line, command->name);
    snprintf(line, sizeof(line), "\n%s %c %s %s\n", command->name[0] != '\0' ? command->name : "-",
             row->letter != 0 ? row->letter : '-', row->name, row->argument != NULL ? row->argument : "-");
    ck_assert_msg(strstr(completion, line) != NULL, "completion has not: %s", line + 1);
    if (row->argument != NULL && row->kind != OPTION_SPECIAL) {
        ck_assert_msg(parse(command, name, row->kind == OPTION_TEXT ? "" : "x", &error) == OPTIONS_BAD,
                      "%s takes anything", name);
        ck_assert_msg(strstr(error.text, name) != NULL && strchr(error.text, '\n') == NULL, "%s", error.text);
    }
}

TEST(every_option_is_in_help_and_completion)
{
    char *completion = text_of(print_completion, NULL), *lines = malloc(strlen(completion) + 2);
    sprintf(lines, "\n%s", completion);
    char *all = text_of(print_all, NULL);
    for (const struct option_row *row = option_rows; row->name != NULL; ++row)
        require_option(&ddprun_command, row, all, lines);
    int count = 0;
    for (; commands[count] != NULL; ++count) {
        const struct command *command = commands[count];
        char *help = text_of(print_help, command);
        for (const struct option_row *row = command->rows; row->name != NULL; ++row)
            require_option(command, row, help, lines);
        ck_assert(strncmp(help, "Usage: ddprun ", 14) == 0 && strstr(help, "Exit codes: 0: ") != NULL);
        ck_assert_msg(strstr(all, command->brief) != NULL, "no %s in --help-all", command->name);
        require_fits(help, 100);
        free(help);
    }
    ck_assert_int_eq(count, COMMANDS);
    ck_assert(strstr(all, "Exit codes") != NULL && strstr(all, "Examples") != NULL);
    require_fits(all, 100);
    free(all);
    free(lines);
    free(completion);
}

TEST(the_short_help_and_the_list_of_commands_fit_a_screen)
{
    char *text = text_of(print_short, NULL);
    ck_assert_int_le(require_fits(text, 80), 24);
    ck_assert(strstr(text, "--page FILE") != NULL && strstr(text, "ddprun help") != NULL);
    free(text);
    text = text_of(print_list, NULL);
    ck_assert_int_le(require_fits(text, 80), 24);
    for (int i = 0; commands[i] != NULL; ++i)
        ck_assert_msg(strstr(text, commands[i]->brief) != NULL, "%s is not listed", commands[i]->name);
    free(text);
}

TEST(a_mistyped_option_gets_the_nearest)
{
    static const struct {
        const char *command, *name, *meant; /* NULL: too far from all */
    } cases[] = {{"", "--bukcet-mb", "bucket-mb"},
                 {"", "--gpu-s", "gpus"},
                 {"", "--noverlap", "no-overlap"},
                 {"", "--max-restatr", "max-restarts"},
                 {"", "--xyzzy", NULL},
                 {"", "--bucketmb=3", "bucket-mb"},
                 {"scout", "--stpes", "steps"},
                 {"scout", "--what", NULL},
                 {"scout", "--bucket-mb", NULL},
                 {"trace", "--ouptut", "output"},
                 {"report", "--no-overlap", NULL},
                 {"scout", "--jsno", "json"},
                 {"doctor", "--frobnicate", NULL},
                 {"check", "--tolerence", "tolerance"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const struct command *command = cases[i].command[0] != '\0' ? command_named(commands, cases[i].command) : NULL;
        struct error error = {0};
        char wanted[64];
        ck_assert_int_eq(parse(command != NULL ? command : &ddprun_command, cases[i].name, NULL, &error), OPTIONS_BAD);
        ck_assert_int_eq(error.exit_code, DDPRUN_EXIT_USAGE);
        snprintf(wanted, sizeof(wanted), "did you mean --%s?", cases[i].meant != NULL ? cases[i].meant : "");
        ck_assert_msg((strstr(error.text, "did you mean") != NULL) == (cases[i].meant != NULL) &&
                          (cases[i].meant == NULL || strstr(error.text, wanted) != NULL),
                      "%s: %s", cases[i].name, error.text);
        ck_assert_msg(command == NULL || strstr(error.text, command->name) != NULL, "%s", error.text);
        ck_assert_ptr_null(strchr(error.text, '\n'));
    }
}

TEST(a_mistyped_command_gets_the_nearest)
{
    static const char *const cases[][2] = {{"chekc", "check"}, {"doctro", "doctor"}, {"scuot", "scout"},
                                           {"chek", "check"},  {"traec", "trace"},   {"reports", "report"},
                                           {"train", NULL},    {"python", NULL},     {"", NULL},
                                           {"chk", NULL},      {"./chekc", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const struct command *nearest = command_nearest(commands, cases[i][0]);
        ck_assert_msg((nearest == NULL) == (cases[i][1] == NULL) &&
                          (nearest == NULL || strcmp(nearest->name, cases[i][1]) == 0),
                      "%s: %s", cases[i][0], nearest != NULL ? nearest->name : "none");
    }
    for (int i = 0; commands[i] != NULL; ++i)
        ck_assert_ptr_eq(command_named(commands, commands[i]->name), commands[i]);
    ck_assert_ptr_null(command_named(commands, "help"));
}

/* Options of a tool stand before the program or folder, and behind it too where the command `mixes`. */
TEST(options_of_a_tool_end_at_the_program)
{
    for (int i = 0; commands[i] != NULL; ++i) {
        const struct command *command = commands[i];
        char *words[] = {"tool", "first", "--help", NULL}, **rest = NULL;
        int exit_code = -1, out = dup(STDOUT_FILENO), null = open("/dev/null", O_WRONLY);
        fflush(stdout);
        dup2(null, STDOUT_FILENO);
        bool begins = command_begin(command, words, &target, &rest, &exit_code);
        fflush(stdout);
        dup2(out, STDOUT_FILENO);
        close(out);
        close(null);
        ck_assert_msg(begins != command->mixes, "%s", command->name);
        if (begins)
            ck_assert(strcmp(rest[0], "first") == 0 && strcmp(rest[1], "--help") == 0);
        else
            ck_assert_int_eq(exit_code, 0);
    }
}

/* A name that no option has would refuse nothing. */
TEST(options_that_tools_name_are_there)
{
    const char *const *const lists[] = {check_refuses, check_sets, scout_sets};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        for (const char *const *name = lists[i]; *name != NULL; ++name)
            ck_assert_msg(option_row_named(&ddprun_command, *name) != NULL, "no option --%s", *name);
    }
}

int
main(void)
{
    options_mix(&check_command, check_rows);
    return tests_run();
}

/* compiled.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include "launcher/common/path_walk.h"
#include "launcher/common/xcalloc.h"

#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

/* ---- the command of a file ---- */

static const char *
text_of(struct json_object *entry, const char *key)
{
    struct json_object *member;
    return json_object_object_get_ex(entry, key, &member) ? json_object_get_string(member) : NULL;
}

/* Whether a name, as seen from a folder, is this file. */
static bool
is_file(const char *folder, const char *name, const char *path)
{
    struct stat a, b;
    char *whole = name[0] == '/' ? xstrdup(name) : xasprintf("%s/%s", folder, name);
    bool is = stat(whole, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    free(whole);
    return is;
}

/* What it says is executed: one that another user has made, or can change or replace, is none. NULL: there is none. */
static struct json_object *
read_own(const char *commands)
{
    struct stat file;
    bool refused;
    char *name = path_walk(commands, PATH_KEPT, &refused);
    int fd = name != NULL && !refused ? open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    bool is_own = fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && !owner_is_other(file.st_uid) &&
                  !others_can_replace(&file, file.st_uid);
    struct json_object *all = is_own ? json_object_from_fd(fd) : NULL;
    if (fd >= 0)
        close(fd);
    free(name);
    return all;
}

/* The entry of a file in a compile_commands.json; NULL: there is none. *all_p is to be released. */
static struct json_object *
entry_in(const char *commands, const char *path, struct json_object **all_p)
{
    *all_p = read_own(commands);
    size_t count = json_object_is_type(*all_p, json_type_array) ? json_object_array_length(*all_p) : 0;
    for (size_t i = 0; i < count; ++i) {
        struct json_object *entry = json_object_array_get_idx(*all_p, i);
        const char *folder = text_of(entry, "directory"), *name = text_of(entry, "file");
        if (folder != NULL && name != NULL && is_file(folder, name, path))
            return entry;
    }
    json_object_put(*all_p);
    *all_p = NULL;
    return NULL;
}

/* The same, in the folders around the file, and in "build" of each. */
static struct json_object *
find_entry(const char *path, struct json_object **all_p)
{
    struct json_object *entry = NULL;
    char *folder = xstrdup(path), *slash;
    while (entry == NULL && (slash = strrchr(folder, '/')) != NULL) {
        *slash = '\0';
        for (int i = 0; i < 2 && entry == NULL; ++i) {
            char *commands = xasprintf("%s/%scompile_commands.json", folder, i == 0 ? "" : "build/");
            entry = entry_in(commands, path, all_p);
            free(commands);
        }
    }
    free(folder);
    return entry;
}

/* The words of an entry, by env(1): a list, or a line as for a shell. NULL: they cannot be read. */
static char **
words_of(struct json_object *entry)
{
    struct json_object *list = NULL;
    struct word_list words = {0};
    wordexp_t split;
    const char *line = text_of(entry, "command");
    bool has_list = json_object_object_get_ex(entry, "arguments", &list) && json_object_is_type(list, json_type_array);
    if (line != NULL ? wordexp(line, &split, WRDE_NOCMD) != 0 : !has_list)
        return NULL;
    word_list_add(&words, xstrdup("env"));
    for (size_t i = 0; line != NULL && i < split.we_wordc; ++i)
        word_list_add(&words, xstrdup(split.we_wordv[i]));
    for (size_t i = 0; line == NULL && i < json_object_array_length(list); ++i)
        word_list_add(&words, xstrdup(json_object_get_string(json_object_array_get_idx(list, i))));
    if (line != NULL)
        wordfree(&split);
    return words.list;
}

/* Where ddprun.h may lie: beside an installed ddprun, or in the sources around a built one. */
static char *
own_folder(const char *below)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
    while (length > 0 && path[length - 1] != '/')
        --length;
    return xasprintf("-I%.*s%s", (int)(length > 0 ? length : 0), path, below);
}

/* The command, for a copy of the file in a folder, which leaves the program's own objects as they are. Takes `words`.
 */
static char **
for_copy(char **words, const char *folder, const char *path, const char *copy)
{
    static const char *const outputs[] = {"-o", "--output-file", "-MF", "--dependency-output"};
    struct word_list list = {0};
    char *other = NULL; /* comes in place of the next word */
    bool has_output = false;
    for (size_t i = 0; words[i] != NULL; ++i) {
        char *word = other != NULL                              ? other
                     : i > 0 && is_file(folder, words[i], path) ? xstrdup(copy)
                                                                : xstrdup(words[i]);
        bool is_word = other == NULL;
        other = NULL;
        for (size_t k = 0; k < sizeof(outputs) / sizeof(outputs[0]) && is_word; ++k) {
            if (strcmp(word, outputs[k]) != 0)
                continue;
            other = xasprintf("%s.%zu", copy, k / 2);
            has_output = has_output || k < 2;
        }
        word_list_add(&list, word);
    }
    free(other);
    words_free(words);
    word_list_add(&list, xasprintf("-I%.*s", (int)(strrchr(path, '/') - path), path));
    word_list_add(&list, own_folder("../include"));
    word_list_add(&list, own_folder("../../interpose/include"));
    if (!has_output) {
        word_list_add(&list, xstrdup("-o"));
        word_list_add(&list, xasprintf("%s.0", copy));
    }
    return list.list;
}

/* ---- the copy ---- */

/* A file with all of its lines. False: it cannot be written. */
static bool
write_copy(const struct insertions *insertions, const char *path, const char *copy)
{
    FILE *from = fopen(path, "re"), *to = fopen(copy, "we");
    char *line = NULL;
    size_t room = 0;
    bool more = from != NULL && to != NULL;
    for (int number = 1; more; ++number) {
        for (uint32_t i = 0; i < insertions->count; ++i)
            if (insertions->items[i].line == number && strcmp(insertions->items[i].file, path) == 0)
                fprintf(to, "%s\n", insertions->items[i].text);
        more = getline(&line, &room, from) > 0;
        if (more)
            fputs(line, to);
    }
    free(line);
    if (from != NULL)
        fclose(from);
    return to != NULL && fclose(to) == 0 && from != NULL;
}

/* Runs a command in a folder; its messages go to a file. */
static bool
run(char **words, const char *folder, const char *messages)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        int out = open(messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (out < 0 || chdir(folder) != 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
            _exit(1);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvp(words[0], words);
        _exit(1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The first message with the word error in it, or else the first. */
static void
print_message(FILE *out, const char *messages)
{
    FILE *file = fopen(messages, "re");
    char line[512] = "", first[512] = "";
    while (file != NULL && strstr(line, "error") == NULL && fgets(line, sizeof(line), file) != NULL)
        if (first[0] == '\0')
            memcpy(first, line, sizeof(first));
    const char *shown = strstr(line, "error") != NULL ? line : first;
    fprintf(out, "%.*s", (int)strcspn(shown, "\n"), shown);
    if (file != NULL)
        fclose(file);
}

static void
print_compiled(FILE *out, const struct insertions *insertions, const char *path, const char *folder)
{
    struct json_object *all = NULL, *entry = find_entry(path, &all);
    char *copy = xasprintf("%s/%s", folder, strrchr(path, '/') + 1), *messages = xasprintf("%s.messages", copy);
    char **words = entry != NULL ? words_of(entry) : NULL;
    if (words == NULL) {
        fprintf(out, "not compiled: %s: no compile_commands.json has it\n", path);
    } else {
        words = for_copy(words, text_of(entry, "directory"), path, copy);
        bool compiles = write_copy(insertions, path, copy) && run(words, text_of(entry, "directory"), messages);
        fprintf(out, compiles ? "compiled with its lines: %s\n" : "does not compile with its lines: %s: ", path);
        if (!compiles) {
            print_message(out, messages);
            fputs("; put them in by hand\n", out);
        }
        words_free(words);
    }
    json_object_put(all);
    free(messages);
    free(copy);
}

void
lines_compile(FILE *out, const struct insertions *insertions, const char *folder)
{
    for (uint32_t i = 0; i < insertions->count; ++i)
        if (i == 0 || strcmp(insertions->items[i].file, insertions->items[i - 1].file) != 0)
            print_compiled(out, insertions, insertions->items[i].file, folder);
}

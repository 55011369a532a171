/*
 * loader.c - see loader.h. The form of the list: ld.so(8), ldd(1).
 */
#include "launcher/start/loader.h"

#include "launcher/common/xcalloc.h"
#include "launcher/start/child.h"
#include "launcher/start/elf_file.h"
#include "launcher/start/environment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT_S = 60, MOST_LIBRARIES = 4096, LONGEST_COMPLAINT = 400, WHY_BYTES = 96 };

/* A loader of another name could be any program: only the one that runs ddprun is asked. */
bool
loader_is_own(const char *loader)
{
    struct elf_facts own;
    struct stat running, asked;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0 && elf_file_inspect(fd, &own) == 0 && own.kind == ELF_KIND_DYNAMIC &&
                stat(own.interpreter, &running) == 0 && stat(loader, &asked) == 0 && running.st_ino == asked.st_ino &&
                running.st_dev == asked.st_dev;
    if (fd >= 0)
        close(fd);
    return same;
}

static char *
part(const char *text, size_t length)
{
    return xasprintf("%.*s", (int)length, text);
}

/* " (0x00007f...)" at the end of a line is not of interest. Returns the length without it; 0: it is not there. */
static size_t
without_address(const char *line, size_t length)
{
    static const char opening[] = " (0x";
    for (size_t i = length; i-- > 0;) {
        if (length - i >= sizeof(opening) - 1 && memcmp(line + i, opening, sizeof(opening) - 1) == 0)
            return i;
    }
    return 0;
}

static void
add_library(struct loader_list *loaded, char *name, char *path)
{
    if (loaded->count == MOST_LIBRARIES) {
        free(name);
        free(path);
        return;
    }
    loaded->libraries = xrealloc(loaded->libraries, (loaded->count + 1) * sizeof(*loaded->libraries));
    loaded->libraries[loaded->count++] = (struct loader_library){name, path};
}

/* A line of the list, without its tab. False: not a line of the list. */
static bool
parse_entry(struct loader_list *loaded, const char *line, size_t length)
{
    static const char arrow[] = " => ", nowhere[] = "not found";
    const char *target = memmem(line, length, arrow, sizeof(arrow) - 1);
    size_t bare = without_address(line, length);
    if (target == NULL) {
        if (bare == 0)
            return false;
        add_library(loaded, part(line, bare), part(line, bare));
        return true;
    }
    size_t name_length = (size_t)(target - line);
    target += sizeof(arrow) - 1;
    size_t rest = length - (size_t)(target - line);
    if (rest == sizeof(nowhere) - 1 && memcmp(target, nowhere, rest) == 0) {
        add_library(loaded, part(line, name_length), NULL);
        return true;
    }
    bare = without_address(target, rest);
    if (bare == 0)
        return false;
    add_library(loaded, part(line, name_length), part(target, bare));
    return true;
}

/* Of a library without DT_NEEDED. */
static bool
says_that_it_needs_none(const char *line, size_t length)
{
    static const char words[] = "statically linked";
    return length == sizeof(words) - 1 && memcmp(line, words, length) == 0;
}

void
loader_parse(const char *text, size_t length, struct loader_list *loaded_p)
{
    struct loader_list loaded = {0};
    while (length > 0) {
        const char *newline = memchr(text, '\n', length);
        size_t line = newline != NULL ? (size_t)(newline - text) : length;
        bool is_entry = line > 1 && text[0] == '\t' &&
                        (parse_entry(&loaded, text + 1, line - 1) || says_that_it_needs_none(text + 1, line - 1));
        if (!is_entry && line > 0 && loaded.complaint == NULL)
            loaded.complaint = part(text, line < LONGEST_COMPLAINT ? line : LONGEST_COMPLAINT);
        line += newline != NULL;
        text += line;
        length -= line;
    }
    *loaded_p = loaded;
}

/* What would make the loader do more than list, run foreign code, or write elsewhere (ld.so(8)). */
static char **
quiet_environment(char *const *environment)
{
    static const char *const unwanted[] = {"LD_AUDIT",   "LD_BIND_NOW", "LD_BIND_NOT", "LD_DEBUG",    "LD_DEBUG_OUTPUT",
                                           "LD_PROFILE", "LD_VERBOSE",  "LD_WARN",     "LD_SHOW_AUXV"};
    char **list = environment_copy(environment);
    for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); ++i)
        environment_unset(list, unwanted[i]);
    return list;
}

bool
loader_ask(const char *loader, const char *program, char *const *environment, struct loader_list *loaded, char *why)
{
    char *path = xasprintf("%s%s", program[0] == '/' ? "" : "./", program); /* never an option */
    char *words[] = {xstrdup(loader), path, NULL};
    char **list = quiet_environment(environment);
    environment_set(&list, "LD_TRACE_LOADED_OBJECTS", "1"); /* --list would stop at the first that is missing */
    struct child_result *result = xcalloc(1, sizeof(*result));
    child_run(words, list, LIMIT_S, result);
    /* Whatever its exit code: what it could not load stands in the list, or in a complaint. */
    bool ok = result->end == CHILD_EXITED && result->length < sizeof(result->text) - 1;
    char text[64];
    if (ok)
        loader_parse(result->text, result->length, loaded);
    else
        snprintf(why, WHY_BYTES, "%s", child_end_text(result, text));
    free(result);
    words_free(list);
    free(words[0]);
    free(path);
    return ok;
}

int
loader_place_of(const struct loader_list *loaded, const char *path)
{
    struct stat wanted, file;
    if (stat(path, &wanted) != 0)
        return -1;
    for (size_t i = 0; i < loaded->count; ++i) {
        const char *at = loaded->libraries[i].path;
        if (at != NULL && stat(at, &file) == 0 && file.st_ino == wanted.st_ino && file.st_dev == wanted.st_dev)
            return (int)i;
    }
    return -1;
}

void
loader_list_free(struct loader_list *loaded)
{
    for (size_t i = 0; i < loaded->count; ++i) {
        free(loaded->libraries[i].name);
        free(loaded->libraries[i].path);
    }
    free(loaded->libraries);
    free(loaded->complaint);
    *loaded = (struct loader_list){0};
}

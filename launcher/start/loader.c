/*
 * loader.c - see loader.h. The form of the list: ld.so(8), ldd(1).
 */
#include "launcher/start/loader.h"

#include "launcher/common/xcalloc.h"
#include "launcher/start/child.h"
#include "launcher/start/elf_file.h"
#include "launcher/start/environment.h"

#include <fcntl.h>
#include <sys/stat.h>

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

static void
add_library(struct loader_list *loaded, const char *name, const char *path)
{
    if (loaded->count == MOST_LIBRARIES)
        return;
    loaded->libraries = xrealloc(loaded->libraries, (loaded->count + 1) * sizeof(*loaded->libraries));
    loaded->libraries[loaded->count++] = (struct loader_library){xstrdup(name), path != NULL ? xstrdup(path) : NULL};
}

/* A line of the list, without its tab; it is changed. False: not a line of the list. */
static bool
parse_entry(struct loader_list *loaded, char *line)
{
    static const char arrow[] = " => ", opening[] = " (0x"; /* of an address at the end, which is not of interest */
    char *name_end = strstr(line, arrow), *path = name_end != NULL ? name_end + sizeof(arrow) - 1 : line, *end = NULL;
    if (name_end == NULL && strcmp(line, "statically linked") == 0) /* of a library without DT_NEEDED */
        return true;
    for (char *at = path; (at = strstr(at, opening)) != NULL; ++at)
        end = at;
    if (name_end != NULL)
        *name_end = '\0';
    if (name_end != NULL && strcmp(path, "not found") == 0) {
        add_library(loaded, line, NULL);
        return true;
    }
    if (end == NULL || end == path)
        return false;
    *end = '\0';
    add_library(loaded, line, path);
    return true;
}

void
loader_parse(const char *text, size_t length, struct loader_list *loaded_p)
{
    struct loader_list loaded = {0};
    char *copy = xasprintf("%.*s", (int)length, text), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *whole = xasprintf("%.*s", LONGEST_COMPLAINT, line);
        bool is_entry = line[0] == '\0' || (line[0] == '\t' && parse_entry(&loaded, line + 1));
        if (is_entry || loaded.complaint != NULL)
            free(whole);
        else
            loaded.complaint = whole;
    }
    free(copy);
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

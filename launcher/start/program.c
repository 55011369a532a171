/* program.c - see program.h. */
#include "launcher/start/program.h"

#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/start/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* As deep as the kernel follows interpreters of interpreters (fs/exec.c, exec_binprm). */
enum { DEEPEST_SCRIPT = 4 };

static bool
is_executable_file(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

static bool
not_found(const char *name, struct error *error)
{
    if (is_executable_file(name))
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "program %s not found, in the folders of $PATH; there is one in this folder: write ./%s", name,
                         name);
    return error_set(error, DDPRUN_EXIT_NOT_RUN, "program %s not found, in the folders of $PATH; give its path", name);
}

/* The path to run, by the rules of execvp; a new string, or NULL. */
static char *
search(const char *name, const char *search_path, struct error *error)
{
    if (name[0] != '\0' && strchr(name, '/') != NULL)
        return xstrdup(name);

    char *unusable = NULL; /* found, but not to be executed: better for the message than "not found" */
    const char *at = search_path != NULL ? search_path : "/bin:/usr/bin";
    do {
        size_t length = strcspn(at, ":");
        char *path = length == 0 ? xasprintf("./%s", name) : xasprintf("%.*s/%s", (int)length, at, name);
        if (name[0] != '\0' && is_executable_file(path)) {
            free(unusable);
            return path;
        }
        struct stat file;
        if (name[0] != '\0' && unusable == NULL && stat(path, &file) == 0 && S_ISREG(file.st_mode))
            unusable = path;
        else
            free(path);
        at += length;
    } while (*at++ == ':');

    struct stat here;
    if (unusable == NULL && name[0] != '\0' && stat(name, &here) == 0 && S_ISREG(here.st_mode) &&
        access(name, X_OK) != 0)
        unusable = xstrdup(name);
    if (unusable == NULL)
        not_found(name, error);
    return unusable;
}

/* AT_SECURE makes the dynamic loader drop LD_PRELOAD entries with a '/'. */
static bool
changes_rights(int fd, const struct stat *file)
{
    if ((file->st_mode & S_ISUID) != 0 && file->st_uid != geteuid())
        return true;
    if ((file->st_mode & S_ISGID) != 0 && (file->st_mode & S_IXGRP) != 0 && file->st_gid != getegid())
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

static bool
refuse_elf(const char *path, enum elf_kind kind, struct error *error)
{
    switch (kind) {
    case ELF_KIND_STATIC:
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s is a static executable, into which no library can be preloaded; link it without -static",
                         path);
    case ELF_KIND_OTHER_MACHINE:
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s was built for another processor or word size; build it for this machine, 64 bits wide",
                         path);
    case ELF_KIND_LIBRARY:
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s is a shared library, which cannot be started; name the program that uses it", path);
    case ELF_KIND_NOT_LINKED:
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s is an object file or a core dump, not a program; link it first", path);
    default:
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s is damaged: it was cut, or its ELF headers make no sense; build or copy it again", path);
    }
}

static bool
check_loader(const char *path, const struct elf_facts *facts, struct error *error)
{
    if (access(facts->interpreter, X_OK) == 0)
        return true;
    return error_set(
        error, DDPRUN_EXIT_NOT_RUN,
        "%s asks for the dynamic loader %s, which is not on this machine; build it here, or install that loader", path,
        facts->interpreter);
}

bool
program_script_interpreter(const char *bytes, size_t length, char interpreter[PROGRAM_INTERPRETER_BYTES])
{
    if (length < 2 || bytes[0] != '#' || bytes[1] != '!')
        return false;
    const char *end = memchr(bytes, '\n', length);
    const char *begin = bytes + 2;
    end = end != NULL ? end : bytes + length;
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        ++begin;
    size_t letters = 0;
    while (begin + letters < end && begin[letters] != ' ' && begin[letters] != '\t' && begin[letters] != '\0' &&
           letters < PROGRAM_INTERPRETER_BYTES - 1)
        ++letters;
    memcpy(interpreter, begin, letters);
    interpreter[letters] = '\0';
    return true;
}

/* The interpreter that the first line of a script names; false if the file does not begin with #!. */
static bool
read_interpreter(int fd, char interpreter[PROGRAM_INTERPRETER_BYTES])
{
    char line[PROGRAM_INTERPRETER_BYTES - 1];
    ssize_t got = pread(fd, line, sizeof(line), 0);
    return got > 0 && program_script_interpreter(line, (size_t)got, interpreter);
}

static bool check_file(const char *path, int depth, struct program *program, struct error *error);

static bool
check_script(const char *path, int fd, int depth, struct program *program, struct error *error)
{
    char interpreter[PROGRAM_INTERPRETER_BYTES];
    if (!read_interpreter(fd, interpreter))
        return error_set(
            error, DDPRUN_EXIT_NOT_RUN,
            "%s is neither an ELF program nor a script with a #! line; add one, or start it with its interpreter",
            path);
    if (strchr(interpreter, '\r') != NULL)
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "%s has line ends of Windows, so that its #! line names no interpreter; convert it (dos2unix)",
                         path);
    if (interpreter[0] != '/' || depth >= DEEPEST_SCRIPT)
        return error_set(error, DDPRUN_EXIT_NOT_RUN, "%s has a #! line that names no usable interpreter ('%s'); fix it",
                         path, interpreter);
    program->is_script = true;
    snprintf(program->interpreter, sizeof(program->interpreter), "%s", interpreter);

    struct program ignored = {0};
    struct error inner;
    if (check_file(interpreter, depth + 1, &ignored, &inner))
        return true;
    return error_set(error, DDPRUN_EXIT_NOT_RUN, "script %s: its interpreter: %.1500s", path, inner.text);
}

/* Libraries that the compiler adds, by their names in gcc, clang and Intel's compilers. */
static void
note_runtimes(int fd, struct program *program)
{
    static const char *const openmp[] = {"libgomp.so", "libomp.so", "libiomp5.so"};
    struct elf_file file;
    char name[PROGRAM_LIBRARY_BYTES];
    if (elf_file_open(fd, &file) != 0)
        return;
    (void)elf_file_needs(&file, "libasan.so", program->sanitizer, sizeof(program->sanitizer));
    for (size_t i = 0; i < sizeof(openmp) / sizeof(openmp[0]); ++i)
        program->uses_openmp = program->uses_openmp || elf_file_needs(&file, openmp[i], name, sizeof(name));
    elf_file_close(&file);
}

static bool
check_content(const char *path, int fd, int depth, struct program *program, struct error *error)
{
    struct elf_facts facts;
    int cause = elf_file_inspect(fd, &facts);
    if (cause != 0)
        return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot read %s: %s; check the file", path, strerror(cause));
    if (facts.kind == ELF_KIND_NOT_ELF)
        return check_script(path, fd, depth, program, error);
    if (facts.kind != ELF_KIND_DYNAMIC)
        return refuse_elf(path, facts.kind, error);
    program->built_for_softgpu = facts.built_for_softgpu;
    note_runtimes(fd, program);
    return check_loader(path, &facts, error);
}

static bool
ends_in(const char *path, const char *ending)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ending) == 0;
}

static bool
refuse_not_executable(const char *path, struct error *error)
{
    if (ends_in(path, ".cu") || ends_in(path, ".c") || ends_in(path, ".cpp"))
        return error_set(
            error, DDPRUN_EXIT_NOT_RUN,
            "cannot start %s: it is a source; compile it first, and start what that makes: nvcc -o train %s, "
            "or softgpu-cc -o train %s for the stand-in",
            path, path, path);
    if (ends_in(path, ".py"))
        return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: it is a Python script; write python3 %s", path,
                         path);
    return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: it is not executable; chmod +x it", path);
}

/* Names the first folder of the path that is missing. */
static bool
refuse_missing(const char *path, struct error *error)
{
    int why = errno;
    for (const char *slash = strchr(path + 1, '/'); why == ENOENT && slash != NULL; slash = strchr(slash + 1, '/')) {
        char *folder = xasprintf("%.*s", (int)(slash - path), path);
        bool is_missing = access(folder, F_OK) != 0;
        if (is_missing)
            error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: there is no folder %s; check the path", path,
                      folder);
        free(folder);
        if (is_missing)
            return false;
    }
    return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: %s; check the path", path, strerror(why));
}

static bool
check_file(const char *path, int depth, struct program *program, struct error *error)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return refuse_missing(path, error);
    if (S_ISDIR(file.st_mode))
        return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: it is a folder; name the program in it", path);
    if (!S_ISREG(file.st_mode))
        return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot start %s: it is not a regular file; name a program", path);
    if (access(path, X_OK) != 0)
        return refuse_not_executable(path, error);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, DDPRUN_EXIT_NOT_RUN,
                         "cannot read %s: %s; ddprun must see how it was built, make it readable", path,
                         strerror(errno));
    bool ok = false;
    if (changes_rights(fd, &file))
        error_set(
            error, DDPRUN_EXIT_NOT_RUN,
            "%s runs with other rights than yours (setuid, setgid or capabilities), so no library can be preloaded "
            "into it; use a copy without them",
            path);
    else
        ok = check_content(path, fd, depth, program, error);
    close(fd);
    return ok;
}

const char *
program_python(const char *name)
{
    const char *python = getenv(DDPRUN_ENV_PYTHON);
    size_t length = strlen(name);
    return python != NULL && python[0] != '\0' && length > 3 && strcmp(name + length - 3, ".py") == 0 ? python : NULL;
}

bool
program_find(const char *name, const char *search_path, struct program *program_p, struct error *error)
{
    const char *python = program_python(name);
    if (python != NULL && access(name, R_OK) != 0)
        return error_set(error, DDPRUN_EXIT_NOT_RUN, "cannot read %s: %s; check the path", name, strerror(errno));
    struct program program = {.path = search(python != NULL ? python : name, search_path, error)};
    if (program.path == NULL)
        return false;
    if (!check_file(program.path, 0, &program, error)) {
        program_free(&program);
        return false;
    }
    *program_p = program;
    return true;
}

void
program_free(struct program *program)
{
    free(program->path);
    *program = (struct program){0};
}

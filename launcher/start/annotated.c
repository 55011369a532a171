/* annotated.c - see loader.h. */
#include "launcher/start/loader.h"

#include "launcher/start/elf_file.h"

#include <fcntl.h>
#include <unistd.h>

/* Makes *found true where the file shows it. False: it cannot be read. */
typedef bool find_evidence(const struct elf_file *file, bool *found);

/* All that is loaded of the file is searched, however long it is. */
static bool
find_annotation(const struct elf_file *file, bool *found)
{
    return elf_file_search(file, "ddprun_interface", found);
}

/* Without a table of sections there is no evidence of kernels. */
static bool
find_kernels(const struct elf_file *file, bool *found)
{
    *found = elf_file_has_section(file, is_section_of_kernels);
    return true;
}

/* False: it cannot be read. */
static bool
look_into(const char *path, find_evidence *find, bool *found)
{
    struct elf_file file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = false;
    if (fd >= 0 && elf_file_open(fd, &file) == 0) {
        ok = elf_file_is_dynamic(&file) && find(&file, found);
        elf_file_close(&file);
    }
    if (fd >= 0)
        close(fd);
    return ok;
}

/* CUDA's libraries hold kernels of their own; the kernel's own library is no file. */
static bool
is_of_program(const struct loader_list *loaded, size_t i, const char *shim)
{
    const struct loader_library *library = &loaded->libraries[i];
    return !is_library_of_cuda(library->name) && strstr(library->name, "libsoftgpu.so") == NULL &&
           strncmp(library->name, "linux-", 6) != 0 && loader_place_of(loaded, shim) != (int)i;
}

/* `any`: of the program and its libraries. False: a file was not found, or cannot be read. */
static bool
look_through(const char *path, const struct loader_list *loaded, const char *shim, find_evidence *find,
             const char **where)
{
    bool found = false, read_all = look_into(path, find, &found);
    *where = found ? path : NULL;
    for (size_t i = 0; i < loaded->count && *where == NULL; ++i) {
        const char *library = loaded->libraries[i].path;
        if (!is_of_program(loaded, i, shim))
            continue;
        read_all = library != NULL && look_into(library, find, &found) && read_all;
        *where = found ? library : NULL;
    }
    return read_all && loaded->complaint == NULL;
}

enum annotated
annotated_judge(const char *path, const struct loader_list *loaded, const char *shim, const char **where)
{
    const char *kernels;
    bool read_all = look_through(path, loaded, shim, find_annotation, where);
    if (*where != NULL)
        return ANNOTATED_YES;
    read_all = look_through(path, loaded, shim, find_kernels, &kernels) && read_all;
    if (!read_all)
        return ANNOTATED_UNKNOWN;
    return kernels != NULL ? ANNOTATED_NO : ANNOTATED_NO_KERNELS;
}

static enum annotated
judge_libraries(const char *path, const struct loader_list *loaded, const char *shim)
{
    const char *where;
    bool read_all = look_through(path, loaded, shim, find_kernels, &where);
    if (where == NULL)
        return read_all ? ANNOTATED_NO_KERNELS : ANNOTATED_UNKNOWN;
    return annotated_judge(path, loaded, shim, &where);
}

/* The loader that it asks for, if that may be asked. */
static bool
find_loader(const char *path, struct elf_facts *facts)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && elf_file_inspect(fd, facts) == 0 && facts->kind == ELF_KIND_DYNAMIC &&
              loader_is_own(facts->interpreter);
    if (fd >= 0)
        close(fd);
    return ok;
}

enum annotated
annotated_ask(const char *path, char *const *environment, const char *shim)
{
    struct elf_facts facts;
    struct loader_list loaded;
    char why[96];
    bool found = false;
    if (look_into(path, find_annotation, &found) && found) /* as most are: no process is started for it */
        return ANNOTATED_YES;
    if (!find_loader(path, &facts) || !loader_ask(facts.interpreter, path, environment, &loaded, why))
        return ANNOTATED_UNKNOWN;
    enum annotated answer = judge_libraries(path, &loaded, shim);
    loader_list_free(&loaded);
    return answer;
}

/*
 * fuzz_files.c - targets: programs, as ddprun and its doctor look at them before anything is started, and the names of
 * kernels, which compilers make.
 *
 * Required: what is said of a file is in the file; a name has no more parameters than there is room for, and only
 * pointers point to something.
 */
#include "tests/fuzz/fuzz.h"

#include "launcher/start/elf_file.h"
#include "tools/scout/format/log.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
fuzz_elf(const uint8_t *bytes, size_t count)
{
    struct elf_file file;
    bool found;
    int fd = fuzz_file(bytes, count);
    fuzz_require(elf_file_open(fd, &file) == 0, "the file can be read");
    struct elf_facts facts = elf_file_facts(&file);
    fuzz_require(facts.kind <= ELF_KIND_DAMAGED, "its kind is a known one");
    bool is_elf = count >= 4 && memcmp(bytes, "\177ELF", 4) == 0;
    fuzz_require(is_elf || facts.kind == ELF_KIND_NOT_ELF, "what does not say that it is ELF is not");
    if (facts.kind == ELF_KIND_DYNAMIC)
        fuzz_require(facts.interpreter[0] != '\0' && strnlen(facts.interpreter, PATH_MAX) < PATH_MAX,
                     "a dynamic program names its loader");
    fuzz_require(!elf_file_search(&file, "ddprun_interface", &found) || !found || is_elf,
                 "only an ELF file says something");
    elf_file_close(&file);
    close(fd);
}

enum { PARAMETERS_AT_MOST = 64 };

void
fuzz_mangled(const uint8_t *bytes, size_t count)
{
    struct mangled_parameter parameters[PARAMETERS_AT_MOST];
    char *name = fuzz_text(bytes, count);
    int said = mangled_parameters(name, parameters, PARAMETERS_AT_MOST);
    fuzz_require(said >= -1 && said <= PARAMETERS_AT_MOST, "no more than was asked for");
    for (int i = 0; i < said; ++i)
        fuzz_require(parameters[i].is_pointer || (parameters[i].pointee == SCOUT_UNKNOWN && !parameters[i].is_words),
                     "what is no pointer points to nothing");
    free(name);
}

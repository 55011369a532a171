/*
 * fuzz_files.c - targets: programs, as ddprun and its doctor look at them before anything is started.
 *
 * Required: what is said of a file is in the file.
 */
#include "tests/fuzz/fuzz.h"

#include "launcher/start/elf_file.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void
fuzz_elf(const uint8_t *bytes, size_t count)
{
    struct elf_file file;
    bool found;
    int fd = memfd_create("program", MFD_CLOEXEC);
    fuzz_require(fd >= 0 && write(fd, bytes, count) == (ssize_t)count, "there is memory for the file");
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

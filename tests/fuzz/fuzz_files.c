/*
 * fuzz_files.c - targets: programs, as ddprun and its doctor look at them before anything is started.
 *
 * Required: what is said of a file is in the file.
 */
#include "tests/fuzz/fuzz.h"

#include "launcher/start/elf_file.h"
#include "tools/doctor/elf_needs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
fuzz_elf(const uint8_t *bytes, size_t count)
{
    struct elf_source source = elf_source_memory(bytes, count);
    struct elf_facts facts;
    struct elf_needs needs;
    memset(&facts, 0x5a, sizeof(facts));
    fuzz_require(elf_file_inspect_source(&source, &facts) == 0, "memory can be read");
    fuzz_require(facts.kind <= ELF_KIND_DAMAGED, "its kind is a known one");
    bool is_elf = count >= 4 && memcmp(bytes, "\177ELF", 4) == 0;
    fuzz_require(is_elf || facts.kind == ELF_KIND_NOT_ELF, "what does not say that it is ELF is not");
    if (facts.kind == ELF_KIND_DYNAMIC)
        fuzz_require(facts.interpreter[0] != '\0' && strnlen(facts.interpreter, PATH_MAX) < PATH_MAX,
                     "a dynamic program names its loader");
    int failed = elf_needs_read(&source, &needs);
    fuzz_require(failed == 0 || failed == EBADMSG, "what it shows is read, or it is damaged");
    fuzz_require(failed != 0 || is_elf, "only an ELF file says something");
}

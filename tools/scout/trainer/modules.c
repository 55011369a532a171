/*
 * modules.c - device code that the program loads while it runs, into the log: with it a plan can say whether a later
 * run has the same kernels.
 *
 * What lies in the program or in its libraries is not reported: their build-ids stand for it. How long an image in
 * memory is, only the image says.
 */
#include "tools/scout/trainer/scout.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static struct {
    uint64_t *items; /* hashes of what the log has */
    size_t count;
} noted_modules;

/* ---- the size of an image ---- */

static size_t
larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Up to the end of its last table, segment or section. */
static size_t
elf_bytes(const char *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof(header));
    size_t end = larger(header.e_phoff + (size_t)header.e_phnum * sizeof(Elf64_Phdr),
                        header.e_shoff + (size_t)header.e_shnum * sizeof(Elf64_Shdr));
    if ((header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr)) ||
        (header.e_shnum > 0 && header.e_shentsize != sizeof(Elf64_Shdr)))
        return 0;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        memcpy(&segment, image + header.e_phoff + i * sizeof(segment), sizeof(segment));
        end = larger(end, segment.p_offset + segment.p_filesz);
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        memcpy(&section, image + header.e_shoff + i * sizeof(section), sizeof(section));
        end = larger(end, section.sh_type == SHT_NOBITS ? 0 : section.sh_offset + section.sh_size);
    }
    return end;
}

/* PTX begins with its version, behind comments and space. */
static bool
is_ptx(const char *text)
{
    static const char version[] = ".version";
    for (;;) {
        while (isspace((unsigned char)*text))
            ++text;
        if (strncmp(text, "//", 2) == 0) {
            while (*text != '\0' && *text != '\n')
                ++text;
        } else if (strncmp(text, "/*", 2) == 0) {
            const char *end = strstr(text + 2, "*/");
            if (end == NULL)
                return false;
            text = end + 2;
        } else {
            return strncmp(text, version, sizeof(version) - 1) == 0;
        }
    }
}

size_t
modules_image_bytes(const void *image)
{
    const unsigned char *bytes = image;
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
        return bytes[EI_CLASS] == ELFCLASS64 ? elf_bytes(image) : 0;
    return is_ptx(image) ? strlen(image) : 0;
}

/* ---- into the log ---- */

static bool
hash_file(const char *path, struct scout_module *module)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    void *content = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0)
        content = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    if (content == MAP_FAILED)
        return false;
    module->bytes = (uint64_t)file.st_size;
    module->hash = XXH3_64bits(content, module->bytes);
    (void)munmap(content, module->bytes);
    return true;
}

/* Whether the log has it; else it is going to. */
static bool
is_noted(const struct scout_module *module)
{
    uint64_t words[] = {module->hash, module->bytes, XXH3_64bits(module->path, strlen(module->path))};
    uint64_t hash = XXH3_64bits(words, sizeof(words));
    for (size_t i = 0; i < noted_modules.count; ++i) {
        if (noted_modules.items[i] == hash)
            return true;
    }
    uint64_t *grown = realloc(noted_modules.items, (noted_modules.count + 1) * sizeof(*grown));
    if (grown == NULL)
        scout_stop("out of memory");
    noted_modules.items = grown;
    grown[noted_modules.count++] = hash;
    return false;
}

void
modules_note(const void *image, const char *path)
{
    struct scout_module module = {.path = (char *)(path != NULL ? path : "")};
    if (path != NULL) {
        (void)hash_file(path, &module);
    } else {
        module.bytes = modules_image_bytes(image);
        module.hash = module.bytes > 0 ? XXH3_64bits(image, module.bytes) : 0;
    }
    if (!is_noted(&module))
        (void)scout_writer_put(&scout_state.log, SCOUT_MODULE, &module);
}

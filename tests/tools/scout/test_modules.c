/*
 * test_modules.c - what the recorder of `ddprun scout` writes down of device code that a program loads: a hash of a
 * file and of an image that says its own size, and of each once; of other images that there was one.
 */
#include "tests/test.h"
#include "tools/scout/trainer/scout.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct scout_state scout_state;

/* What was written last, and how many. */
static struct scout_module last;
static unsigned count;

bool
scout_writer_put(struct scout_writer *writer, enum scout_record kind, const void *record)
{
    (void)writer;
    ck_assert_int_eq(kind, SCOUT_MODULE);
    last = *(const struct scout_module *)record;
    ++count;
    return true;
}

void
scout_stop(const char *format, ...)
{
    ck_abort_msg("%s", format);
    abort();
}

TEST(the_size_of_ptx_is_that_of_its_text)
{
    static const char *const texts[] = {".version 8.0\n.target sm_80\n", "//\n// made by hand\n//\n\n.version 8.0\n",
                                        "/* one\n * two */ // three\n\t.version 7.1"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i)
        ck_assert_uint_eq(modules_image_bytes(texts[i]), strlen(texts[i]));
    ck_assert_uint_eq(modules_image_bytes("version 8.0"), 0);
    ck_assert_uint_eq(modules_image_bytes("/* no end .version 8.0"), 0);
    ck_assert_uint_eq(modules_image_bytes("// only a comment"), 0);
    ck_assert_uint_eq(modules_image_bytes("\x50\xed\x55\xba\x01\x00\x10"), 0);
}

/* With its section headers in front of or behind the last section, and one without content at the end. */
TEST(the_size_of_elf_is_where_its_last_piece_ends)
{
    for (int headers_last = 0; headers_last < 2; ++headers_last) {
        static char image[4096 + 1]; /* not aligned */
        Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                             .e_shoff = headers_last ? 1000 : sizeof(header),
                             .e_shnum = 2,
                             .e_shentsize = sizeof(Elf64_Shdr)};
        Elf64_Shdr sections[] = {{.sh_type = SHT_PROGBITS, .sh_offset = 300, .sh_size = 500},
                                 {.sh_type = SHT_NOBITS, .sh_offset = 800, .sh_size = 1 << 20}};
        memcpy(image + 1, &header, sizeof(header));
        memcpy(image + 1 + header.e_shoff, sections, sizeof(sections));
        ck_assert_uint_eq(modules_image_bytes(image + 1), headers_last ? 1000 + sizeof(sections) : 800);
    }
    Elf64_Ehdr segments_only = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                                .e_phoff = sizeof(segments_only),
                                .e_phnum = 1,
                                .e_phentsize = sizeof(Elf64_Phdr)};
    char image[256] = {0};
    Elf64_Phdr segment = {.p_offset = 200, .p_filesz = 17, .p_memsz = 4096};
    memcpy(image, &segments_only, sizeof(segments_only));
    memcpy(image + sizeof(segments_only), &segment, sizeof(segment));
    ck_assert_uint_eq(modules_image_bytes(image), 217);
    image[EI_CLASS] = ELFCLASS32;
    ck_assert_uint_eq(modules_image_bytes(image), 0);
    image[EI_CLASS] = ELFCLASS64;
    segments_only.e_phentsize = 8;
    memcpy(image, &segments_only, sizeof(segments_only));
    ck_assert_uint_eq(modules_image_bytes(image), 0);
}

TEST(each_image_is_noted_once)
{
    char path[] = "/tmp/ddprun-module-XXXXXX", text[] = ".version 8.0\n";
    count = 0;
    modules_note(text, NULL);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(last.bytes, strlen(text));
    ck_assert_str_eq(last.path, "");
    uint64_t hash = last.hash;
    modules_note(text, NULL);
    ck_assert_uint_eq(count, 1);

    int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    modules_note(NULL, path);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(last.hash, hash);
    ck_assert_uint_eq(last.bytes, strlen(text));
    ck_assert_str_eq(last.path, path);
    modules_note(NULL, path);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    modules_note(NULL, path);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_ne(last.hash, hash);
    (void)close(fd);
    (void)unlink(path);

    modules_note(NULL, path); /* is gone */
    ck_assert_uint_eq(count, 4);
    ck_assert_uint_eq(last.bytes, 0);
    modules_note("SOFTGPU", NULL);
    ck_assert_uint_eq(count, 5);
    ck_assert_uint_eq(last.bytes, 0);
}

int
main(void)
{
    return tests_run();
}

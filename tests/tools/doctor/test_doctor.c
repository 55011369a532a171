/*
 * test_doctor.c - what the doctor reads of files, of the loader and of scripts is what is in them; no bytes, however
 * hostile, lead a parser astray or reach a terminal.
 *
 * A little shared object is made here byte by byte; damage is random. Under AddressSanitizer a read outside of a buffer
 * ends the test.
 */
#include "launcher/start/child.h"
#include "launcher/start/elf_file.h"
#include "launcher/start/loader.h"
#include "launcher/start/program.h"
#include "tools/doctor/examine.h"

#include "tests/lib/test.h"

#include <elf.h>

enum { CASES = 2000, TEXT_CASES = 500 };

/* ---- files ---- */

static const char titles[] = "\0.nv_fatbin";

enum { SECTIONS = 3 };

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Shdr sections[SECTIONS];
    char titles[sizeof(titles)];
    char text[64];
};

static void
make_image(struct image *image)
{
    memset(image, 0, sizeof(*image));
    memcpy(image->header.e_ident, ELFMAG, SELFMAG);
    image->header.e_ident[EI_CLASS] = ELFCLASS64;
    image->header.e_ident[EI_DATA] = ELFDATA2LSB;
    image->header.e_ident[EI_VERSION] = EV_CURRENT;
    image->header.e_phoff = offsetof(struct image, segments);
    image->header.e_phentsize = sizeof(Elf64_Phdr);
    image->header.e_phnum = 2;
    image->header.e_shoff = offsetof(struct image, sections);
    image->header.e_shentsize = sizeof(Elf64_Shdr);
    image->header.e_shnum = SECTIONS;
    image->header.e_shstrndx = 1;
    image->segments[0] =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x1000, .p_filesz = sizeof(*image), .p_flags = PF_R};
    image->segments[1] = (Elf64_Phdr){.p_type = PT_DYNAMIC};
    memcpy(image->titles, titles, sizeof(titles));
    const Elf64_Shdr sections[SECTIONS] = {
        [1] = {.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, titles), .sh_size = sizeof(titles)},
        [2] = {.sh_name = 1},
    };
    memcpy(image->sections, sections, sizeof(sections));
    memcpy(image->text, "libcuda.so.1\0xlibsoftgpu.so\0cuGetProcAddress_v2x", 49);
}

static bool
is_wanted(const char *name)
{
    return strcmp(name, ".nv_fatbin") == 0;
}

/* What is in the file; false: it is not whole. */
static bool
look(const void *bytes, size_t count, const char *text, bool *has_text, bool *has_section)
{
    struct elf_file file;
    int fd = memfd_create("program", MFD_CLOEXEC);
    ck_assert(write(fd, bytes, count) == (ssize_t)count);
    ck_assert_int_eq(elf_file_open(fd, &file), 0);
    bool is_whole = elf_file_is_dynamic(&file);
    *has_section = is_whole && elf_file_has_section(&file, is_wanted);
    *has_text = false;
    if (is_whole)
        ck_assert(elf_file_search(&file, text, has_text) || count < sizeof(struct image));
    elf_file_close(&file);
    close(fd);
    return is_whole;
}

TEST_GROUP(all, .timeout_s = 120);

TEST(what_is_in_a_program_is_found)
{
    struct image image;
    bool text, section;
    make_image(&image);
    ck_assert(look(&image, sizeof(image), "libcuda.so.1", &text, &section) && text && section);
    ck_assert(look(&image, sizeof(image), "libsoftgpu.so", &text, &section) && text); /* at the end of a longer text */
    ck_assert(look(&image, sizeof(image), "cuGetProcAddress_v2", &text, &section) && !text);
    image.sections[2].sh_type = SHT_NOBITS; /* as in a file of debug information */
    ck_assert(look(&image, sizeof(image), "libcuda.so.1", &text, &section) && text && !section);
}

TEST(a_text_is_found_wherever_it_lies)
{
    enum { WINDOW = 1 << 20 };
    bool text, section;
    size_t bytes = sizeof(struct image) + 2 * WINDOW;
    unsigned char *file = calloc(1, bytes);
    struct image image;
    make_image(&image);
    memset(image.text, 0, sizeof(image.text));
    image.segments[0].p_filesz = bytes;
    memcpy(file, &image, sizeof(image));
    for (int shift = -20; shift <= 2; ++shift) { /* across the end of the first window */
        memset(file + WINDOW - 64, 0, 128);
        memcpy(file + WINDOW + shift, "libsoftgpu.so", sizeof("libsoftgpu.so"));
        ck_assert(look(file, bytes, "libsoftgpu.so", &text, &section) && text);
        ck_assert(look(file, bytes, "libcuda.so.1", &text, &section) && !text);
    }
    free(file);
}

static void
expect_damage(const struct image *image)
{
    bool text, section;
    ck_assert(!look(image, sizeof(*image), "libcuda.so.1", &text, &section));
}

TEST(what_leads_outside_is_damage)
{
    struct image image;
    make_image(&image);
    image.segments[1].p_offset = UINT64_MAX - 16;
    expect_damage(&image);
    make_image(&image);
    image.segments[1].p_type = PT_NULL;
    expect_damage(&image);
    make_image(&image);
    image.header.e_phnum = UINT16_MAX;
    expect_damage(&image);
}

/* ---- the loader's list ---- */

static const char list[] = "\tlinux-vdso.so.1 (0x00007f00)\n"
                           "\tstatically linked\n"
                           "\t/opt/ddp run/libddprun.so (0x00007f00)\n"
                           "\tlibcudart.so.13 => /opt/a => b (0x1)/libcudart.so.13 (0x00007f00)\n"
                           "\tlibcudnn.so.9 => not found\n"
                           "./t: /lib/libc.so.6: version `GLIBC_2.99' not found (required by ./t)\n"
                           "\t/lib64/ld-linux-x86-64.so.2 (0x00007f00)\n"
                           "a second complaint";

TEST(the_loaders_list_is_understood)
{
    struct loader_list loaded;
    loader_parse(list, strlen(list), &loaded);
    ck_assert_uint_eq(loaded.count, 5);
    ck_assert_str_eq(loaded.libraries[1].path, "/opt/ddp run/libddprun.so");
    ck_assert_str_eq(loaded.libraries[2].name, "libcudart.so.13");
    ck_assert_str_eq(loaded.libraries[2].path, "/opt/a => b (0x1)/libcudart.so.13");
    ck_assert_ptr_null(loaded.libraries[3].path);
    ck_assert_ptr_nonnull(strstr(loaded.complaint, "GLIBC_2.99"));
    loader_list_free(&loaded);
}

LOOP_TEST(any_text_is_a_list, 0, TEXT_CASES)
{
    unsigned seed = (unsigned)_i;
    size_t count = (size_t)rand_r(&seed) % sizeof(list);
    char *text = malloc(count + 1);
    memcpy(text, list, count);
    for (int changes = rand_r(&seed) % 8; count > 0 && changes > 0; --changes)
        text[(size_t)rand_r(&seed) % count] = "\t\n (=>0x)\0"[rand_r(&seed) % 10];
    struct loader_list loaded;
    loader_parse(text, count, &loaded);
    for (size_t i = 0; i < loaded.count; ++i)
        ck_assert_ptr_nonnull(loaded.libraries[i].name);
    loader_list_free(&loaded);
    free(text);
}

/* ---- scripts ---- */

TEST(interpreters_of_scripts)
{
    const struct {
        const char *text, *interpreter; /* NULL: no script */
    } cases[] = {
        {"#!/bin/sh\necho", "/bin/sh"},
        {"#! \t/usr/bin/env python3\n", "/usr/bin/env"},
        {"#!/bin/sh", "/bin/sh"},
        {"#!\n/bin/sh", ""},
        {"#!", ""},
        {"#", NULL},
        {"", NULL},
        {" #!/bin/sh", NULL},
        {"#!/bin/sh\r\n", "/bin/sh\r"},
    };
    char interpreter[PROGRAM_INTERPRETER_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        bool is_script = program_script_interpreter(cases[i].text, strlen(cases[i].text), interpreter);
        ck_assert_int_eq(is_script, cases[i].interpreter != NULL);
        if (is_script)
            ck_assert_str_eq(interpreter, cases[i].interpreter);
    }
    char endless[1000];
    memset(endless, 'x', sizeof(endless));
    memcpy(endless, "#!/", 3);
    ck_assert(program_script_interpreter(endless, sizeof(endless), interpreter));
    ck_assert_uint_eq(strlen(interpreter), PROGRAM_INTERPRETER_BYTES - 1);
}

/* ---- what is printed ---- */

/* Whatever comes in: lines without a control character, one for each finding. */
LOOP_TEST(no_bytes_reach_the_terminal_as_they_are, 0, TEXT_CASES)
{
    unsigned seed = (unsigned)_i;
    char bytes[64], subject[] = "subject";
    for (size_t i = 0; i < sizeof(bytes) - 1; ++i)
        bytes[i] = (char)(1 + rand_r(&seed) % 255);
    bytes[sizeof(bytes) - 1] = '\0';
    char *text = NULL;
    size_t count;
    struct examination it = {.out = open_memstream(&text, &count), .title = bytes};
    findings_say(&it, FINDING_PROBLEM, subject, bytes, "%s", bytes);
    findings_ok(&it, subject, "%s", bytes);
    findings_say_counts(&it);
    fclose(it.out);
    int lines = 0;
    for (const char *p = text; *p != '\0'; ++p) {
        ck_assert((unsigned char)*p >= 0x20 || *p == '\n');
        ck_assert(*p != 0x7f);
        lines += *p == '\n';
    }
    ck_assert_int_eq(lines, 5); /* title, finding, advice, finding, counts */
    free(text);
}

TEST(good_text_stays)
{
    char *text = NULL;
    size_t count;
    struct examination it = {.out = open_memstream(&text, &count), .title = "this machine"};
    findings_say(&it, FINDING_NOTE, "a", "tu was",
                 "Gr\xc3\xbc\xc3\x9f"
                 "e \xe2\x82\xac \xf0\x9f\x98\x80");
    findings_ok(&it, "b", "%d", 7);
    findings_say_counts(&it);
    fclose(it.out);
    ck_assert_str_eq(text, "this machine\n  note     a: Gr\xc3\xbc\xc3\x9f"
                           "e \xe2\x82\xac \xf0\x9f\x98\x80\n"
                           "           -> tu was\n  ok       b: 7\n1 ok, 1 note, 0 warnings, 0 problems\n");
    ck_assert_int_eq(it.counts[FINDING_NOTE], 1);
    free(text);
}

/* ---- children ---- */

static int
say_and_leave(void *context)
{
    printf("%s", (const char *)context);
    return 7;
}

static int
crash(void *context)
{
    (void)context;
    signal(SIGABRT, SIG_DFL);
    raise(SIGKILL);
    return 0;
}

static int
hang(void *context)
{
    (void)context;
    close(STDOUT_FILENO); /* so that its reader sees an end, and must not take it for the child's */
    close(STDERR_FILENO);
    while (pause() != 0)
        ;
    return 0;
}

TEST(a_child_cannot_take_the_doctor_along)
{
    struct child_result *result = malloc(sizeof(*result));
    char long_text[100000];
    child_call(say_and_leave, "words", 60, result);
    ck_assert(result->end == CHILD_EXITED && result->code == 7);
    ck_assert_str_eq(result->text, "words");
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    child_call(say_and_leave, long_text, 60, result);
    ck_assert(result->end == CHILD_EXITED && result->length == CHILD_TEXT_BYTES - 1);
    child_call(crash, NULL, 60, result);
    ck_assert(result->end == CHILD_KILLED && result->code == SIGKILL);
    child_call(hang, NULL, 1, result);
    ck_assert(result->end == CHILD_TOO_SLOW);
    char *words[] = {"/nonexistent/program", NULL};
    child_run(words, environ, 60, result);
    ck_assert(result->end == CHILD_EXITED && result->code == 127);
    free(result);
}

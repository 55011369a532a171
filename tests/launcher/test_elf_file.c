/*
 * test_elf_file.c - what a program is, is read from its file; and no file, however damaged, leads outside of it.
 *
 * Files are made here byte by byte. Damage is random: cut anywhere, any bytes changed; under AddressSanitizer a read
 * outside of a buffer ends the test.
 */
#include "launcher/start/elf_file.h"

#include "tests/lib/test.h"

#include <elf.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, OTHER_MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_AARCH64, OTHER_MACHINE = EM_X86_64 };
#endif

enum { CASES = 400 };

/* A little program: header, three segments, a loader's name, notes. */
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
    char loader[16];
    struct {
        Elf64_Nhdr note;
        char owner[8];
        char description[8];
    } notes[2];
};

static void
make_image(struct image *image, bool with_loader, const char *owner)
{
    memset(image, 0, sizeof(*image));
    memcpy(image->header.e_ident, ELFMAG, SELFMAG);
    image->header.e_ident[EI_CLASS] = ELFCLASS64;
    image->header.e_ident[EI_DATA] = ELFDATA2LSB;
    image->header.e_ident[EI_VERSION] = EV_CURRENT;
    image->header.e_type = ET_DYN;
    image->header.e_machine = MACHINE;
    image->header.e_phoff = offsetof(struct image, segments);
    image->header.e_phentsize = sizeof(Elf64_Phdr);
    image->header.e_phnum = 3;

    snprintf(image->loader, sizeof(image->loader), "/lib/ld.so");
    image->segments[0] = (Elf64_Phdr){.p_type = with_loader ? PT_INTERP : PT_NULL,
                                      .p_offset = offsetof(struct image, loader),
                                      .p_filesz = strlen(image->loader) + 1};
    image->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_filesz = sizeof(*image)};
    image->segments[2] = (Elf64_Phdr){
        .p_type = PT_NOTE, .p_offset = offsetof(struct image, notes), .p_filesz = sizeof(image->notes), .p_align = 4};
    image->notes[0].note = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 11, .n_type = 1};
    memcpy(image->notes[0].owner, "GNU", 4);
    image->notes[1].note = (Elf64_Nhdr){.n_namesz = (Elf64_Word)strlen(owner) + 1, .n_descsz = 4, .n_type = 1};
    snprintf(image->notes[1].owner, sizeof(image->notes[1].owner), "%s", owner);
}

static int
inspect_bytes(const void *bytes, size_t count, struct elf_facts *facts)
{
    int fd = memfd_create("image", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, count), count);
    int error = elf_file_inspect(fd, facts);
    close(fd);
    return error;
}

static struct elf_facts
inspect(const struct image *image)
{
    struct elf_facts facts;
    ck_assert_int_eq(inspect_bytes(image, sizeof(*image), &facts), 0);
    return facts;
}

static struct image image;

TEST(programs_are_distinguished)
{
    make_image(&image, true, "other");
    struct elf_facts facts = inspect(&image);
    ck_assert_int_eq(facts.kind, ELF_KIND_DYNAMIC);
    ck_assert(!facts.built_for_softgpu);
    ck_assert_str_eq(facts.interpreter, "/lib/ld.so");

    make_image(&image, false, "other");
    ck_assert_int_eq(inspect(&image).kind, ELF_KIND_STATIC);
}

/* One field of a program for the stand-in is another one. */
static const struct {
    void *field;
    size_t bytes;
    uint64_t value;
    enum elf_kind kind;
} changes[] = {
#define CHANGED(member, value, kind)                     \
    {                                                    \
        &image.member, sizeof(image.member), value, kind \
    }
    CHANGED(header.e_machine, OTHER_MACHINE, ELF_KIND_OTHER_MACHINE),
    CHANGED(header.e_ident[EI_CLASS], ELFCLASS32, ELF_KIND_OTHER_MACHINE),
    CHANGED(header.e_type, ET_REL, ELF_KIND_NOT_LINKED),
    CHANGED(header.e_phoff, UINT64_MAX - 8, ELF_KIND_DAMAGED), /* fields that lead outside */
    CHANGED(header.e_phnum, 65535, ELF_KIND_DAMAGED),
    CHANGED(segments[0].p_offset, sizeof(image) - 2, ELF_KIND_DAMAGED),
    CHANGED(segments[0].p_filesz, UINT64_C(1) << 60, ELF_KIND_DAMAGED),
    CHANGED(segments[0].p_filesz, 5, ELF_KIND_DAMAGED), /* without its NUL */
    CHANGED(notes[0].note.n_namesz, UINT32_MAX, ELF_KIND_DYNAMIC),
    CHANGED(notes[0].note.n_descsz, UINT32_MAX, ELF_KIND_DYNAMIC),
};

TABLE_TEST(what_a_field_says_decides, changes)
{
    make_image(&image, true, "softgpu");
    memcpy(changes[_i].field, &changes[_i].value, changes[_i].bytes);
    struct elf_facts facts = inspect(&image);
    ck_assert_int_eq(facts.kind, changes[_i].kind);
    ck_assert(facts.kind != ELF_KIND_DYNAMIC || !facts.built_for_softgpu);
}

/* The image with a loader's dynamic section in place of its notes. */
static struct elf_facts
inspect_dynamic(bool with_loader, int type, const Elf64_Dyn *entries, size_t bytes)
{
    make_image(&image, with_loader, "other");
    ck_assert_uint_le(bytes, sizeof(image.notes));
    memcpy(&image.notes, entries, bytes);
    image.header.e_type = (Elf64_Half)type;
    image.segments[2].p_type = PT_DYNAMIC;
    image.segments[2].p_filesz = bytes;
    return inspect(&image);
}

TEST(a_library_is_no_static_program)
{
    const Elf64_Dyn library[] = {{DT_SONAME, {1}}, {DT_FLAGS_1, {DF_1_NOW}}};
    const Elf64_Dyn static_pie[] = {{DT_FLAGS_1, {DF_1_NOW | DF_1_PIE}}, {DT_NULL, {0}}};
    const Elf64_Dyn behind_the_end[] = {{DT_NULL, {0}}, {DT_FLAGS_1, {DF_1_PIE}}};
    ck_assert_int_eq(inspect_dynamic(false, ET_DYN, library, sizeof(library)).kind, ELF_KIND_LIBRARY);
    ck_assert_int_eq(inspect_dynamic(false, ET_DYN, behind_the_end, sizeof(behind_the_end)).kind, ELF_KIND_LIBRARY);
    ck_assert_int_eq(inspect_dynamic(false, ET_DYN, static_pie, sizeof(static_pie)).kind, ELF_KIND_STATIC);
    ck_assert_int_eq(inspect_dynamic(false, ET_EXEC, library, sizeof(library)).kind, ELF_KIND_STATIC);
    ck_assert_int_eq(inspect_dynamic(true, ET_DYN, library, sizeof(library)).kind,
                     ELF_KIND_DYNAMIC); /* as glibc's is */
}

TEST(the_note_is_found_behind_others)
{
    make_image(&image, true, "softgpu");
    ck_assert(inspect(&image).built_for_softgpu);
    make_image(&image, true, "softgp");
    ck_assert(!inspect(&image).built_for_softgpu);
    make_image(&image, true, "softgpu");
    image.notes[1].note.n_namesz = 7; /* the terminating NUL belongs to the owner */
    ck_assert(!inspect(&image).built_for_softgpu);
}

TEST(a_note_of_type_2_names_the_folder)
{
    make_image(&image, true, "softgpu");
    memcpy(image.notes[1].description, "/opt/x", 7);
    image.notes[1].note.n_descsz = 7;
    ck_assert_str_eq(inspect(&image).softgpu_folder, ""); /* of type 1: a version */
    image.notes[1].note.n_type = 2;
    ck_assert(inspect(&image).built_for_softgpu);
    ck_assert_str_eq(inspect(&image).softgpu_folder, "/opt/x");
    image.notes[1].note.n_descsz = 6; /* without its NUL */
    ck_assert(inspect(&image).built_for_softgpu);
    ck_assert_str_eq(inspect(&image).softgpu_folder, "");
    image.notes[1].note.n_descsz = 9; /* longer than the notes */
    ck_assert_str_eq(inspect(&image).softgpu_folder, "");
}

TEST(notes_aligned_to_eight_bytes)
{
    make_image(&image, true, "softgpu");
    image.segments[2].p_align = 8;
    image.notes[1].note.n_descsz = 0;
    memmove((char *)image.notes + 32, &image.notes[1], sizeof(image.notes[1].note) + sizeof(image.notes[1].owner));
    image.notes[0].note = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 9, .n_type = 1}; /* from 16 on, and 7 that fill up */
    ck_assert(inspect(&image).built_for_softgpu);
}

TEST(other_files_are_no_elf)
{
    struct elf_facts facts;
    const char *const texts[] = {"", "\177", "\177ELF", "#!/bin/sh\necho\n",
                                 "a text that is longer than a header's identification"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
        ck_assert_int_eq(inspect_bytes(texts[i], strlen(texts[i]), &facts), 0);
        ck_assert_int_eq(facts.kind, ELF_KIND_NOT_ELF);
    }
    int fd = open("/", O_RDONLY);
    int error = elf_file_inspect(fd, &facts); /* a folder */
    ck_assert(error != 0 || facts.kind == ELF_KIND_NOT_ELF);
    close(fd);
}

/* Any outcome but a crash; and what is called a program has a loader's name that ends. */
SEED_TEST(random_damage_is_survived, 0, CASES)
{
    make_image(&image, true, "softgpu");
    unsigned char bytes[sizeof(image)];
    memcpy(bytes, &image, sizeof(bytes));
    for (int changes = rand_r(&seed) % 6; changes > 0; --changes)
        bytes[16 + (size_t)rand_r(&seed) % (sizeof(bytes) - 16)] =
            (unsigned char)(rand_r(&seed) % 3 == 0 ? 255 : rand_r(&seed));
    size_t count = rand_r(&seed) % 2 == 0 ? sizeof(bytes) : (size_t)rand_r(&seed) % (sizeof(bytes) + 1);

    struct elf_facts facts;
    ck_assert_int_eq(inspect_bytes(bytes, count, &facts), 0);
    if (facts.kind == ELF_KIND_DYNAMIC)
        ck_assert_ptr_nonnull(memchr(facts.interpreter, '\0', sizeof(facts.interpreter)));
    ck_assert_ptr_nonnull(memchr(facts.softgpu_folder, '\0', sizeof(facts.softgpu_folder)));
}

TEST(this_program_is_dynamic)
{
    struct elf_facts facts;
    int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(elf_file_inspect(fd, &facts), 0);
    close(fd);
    ck_assert_int_eq(facts.kind, ELF_KIND_DYNAMIC);
    ck_assert(!facts.built_for_softgpu);
    ck_assert_int_eq(access(facts.interpreter, X_OK), 0);
}

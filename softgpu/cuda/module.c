/*
 * module.c - loads what libnvrtc has compiled: from a container (softgpu/module.h) to a shared library in this process.
 *
 * The library lies in memory without a file (memfd_create(2)), and nothing stays behind on any disk. The dynamic loader
 * takes a library whose path it knows for the same library, so each load has a path of its own. Called by library.c.
 */
#include "driver.h"

#include "softgpu/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3: the file may be executed, also where that is not the default */
#endif

/* The bytes of a module's library. */
struct code {
    const unsigned char *bytes;
    size_t length;
    unsigned char *decoded; /* to be freed, or NULL */
};

/* ---- containers ---- */

static bool
is_cubin(const void *data)
{
    return strcmp(data, SOFTGPU_CUBIN_MAGIC) == 0;
}

bool
module_is_text(const void *data)
{
    return strncmp(data, SOFTGPU_PTX_BEGIN, strlen(SOFTGPU_PTX_BEGIN)) == 0;
}

bool
module_is(const void *data)
{
    return module_is_text(data) || is_cubin(data);
}

static CUresult
open_cubin(const void *data, struct code *code)
{
    struct softgpu_cubin head;
    memcpy(&head, data, sizeof head);
    if (head.version != SOFTGPU_MODULE_VERSION) {
        say("a module of version %u; this is the driver for version %d: compile it again", head.version,
            SOFTGPU_MODULE_VERSION);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    code->bytes = (const unsigned char *)data + sizeof head;
    code->length = head.bytes;
    return CUDA_SUCCESS;
}

/* The six bits of a character of base64, or -1. */
static int
bits_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

static size_t
decode(const char *text, unsigned char *to)
{
    uint32_t bits = 0;
    unsigned count = 0;
    size_t length = 0;
    for (; *text != '\0' && *text != '='; ++text) {
        int value = bits_of(*text);
        if (value < 0) { /* the end of a line */
            continue;
        }
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            to[length++] = (unsigned char)(bits >> count);
        }
    }
    return length;
}

static CUresult
open_text(const char *text, struct code *code)
{
    const char *begin = strstr(text, SOFTGPU_PTX_CODE);
    if (begin == NULL) {
        say("a module without code: its text has been cut");
        return CUDA_ERROR_INVALID_PTX;
    }
    code->decoded = malloc(strlen(begin)); /* base64 is longer */
    REQUIRE_ELSE(code->decoded != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    code->bytes = code->decoded;
    code->length = decode(begin + strlen(SOFTGPU_PTX_CODE), code->decoded);
    return CUDA_SUCCESS;
}

/* Whether the library is there to its end: its table of sections, which libnvrtc has read, is the last part of it. */
static bool
is_whole(const struct code *code)
{
    ElfW(Ehdr) head;
    if (code->length < sizeof head) {
        return false;
    }
    memcpy(&head, code->bytes, sizeof head);
    return memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
           head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize <= code->length;
}

/* ---- files, and inputs of the linker ---- */

/* `bytes` is the length of `copy`, which a NUL follows, and becomes that of the module. */
static CUresult
check_copy(const char *what, const char *copy, size_t *bytes)
{
    struct softgpu_cubin head;
    if (!module_is(copy)) {
        say("%s: no code for the stand-in, which takes files of its NVRTC, and of softgpu-cc -ptx", what);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (module_is_text(copy)) {
        *bytes = strlen(copy) + 1;
        return CUDA_SUCCESS;
    }
    const bool has_head = *bytes >= sizeof head;
    if (has_head) {
        memcpy(&head, copy, sizeof head);
    }
    if (!has_head || head.bytes > *bytes - sizeof head) {
        say("%s: a module that has been cut", what);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *bytes = sizeof head + head.bytes;
    return CUDA_SUCCESS;
}

/* Takes `copy`, which it frees unless it is a module. */
static CUresult
keep_copy(const char *what, char *copy, size_t *bytes, char **copy_p)
{
    CUresult result = check_copy(what, copy, bytes);
    if (result != CUDA_SUCCESS) {
        free(copy);
        return result;
    }
    *copy_p = copy;
    return CUDA_SUCCESS;
}

CUresult
module_copy(const char *what, const void *data, size_t *bytes, char **copy_p)
{
    char *copy = malloc(*bytes + 1);
    REQUIRE_ELSE(copy != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(copy, data, *bytes);
    copy[*bytes] = '\0';
    return keep_copy(what, copy, bytes, copy_p);
}

/* Fewer bytes than asked for: the file has become shorter. */
static size_t
read_all(int file, char *to, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = read(file, to + done, length - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        done += (size_t)got;
    }
    return done;
}

static CUresult
read_open(const char *path, int file, size_t *bytes, char **copy_p)
{
    struct stat status;
    REQUIRE_ELSE(fstat(file, &status) == 0 && S_ISREG(status.st_mode), CUDA_ERROR_FILE_NOT_FOUND);
    const size_t room = (size_t)status.st_size;
    char *copy = malloc(room + 1);
    REQUIRE_ELSE(copy != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *bytes = read_all(file, copy, room);
    copy[*bytes] = '\0';
    return keep_copy(path, copy, bytes, copy_p);
}

CUresult
module_read(const char *path, size_t *bytes, char **copy_p)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    REQUIRE_ELSE(file >= 0, CUDA_ERROR_FILE_NOT_FOUND);
    CUresult result = read_open(path, file, bytes, copy_p);
    close(file);
    return result;
}

/* ---- the compiler's logs ---- */

/* The value of an option; NULL: the caller has not given it. */
static void **
value_of(CUjit_option option, unsigned count, const CUjit_option *options, void **values)
{
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == option) {
            return &values[i];
        }
    }
    return NULL;
}

static void
clear_log(void **buffer, void **bytes)
{
    if (bytes == NULL) {
        return;
    }
    if (buffer != NULL && *buffer != NULL && (uintptr_t)*bytes > 0) {
        *(char *)*buffer = '\0';
    }
    *bytes = NULL; /* how much was written */
}

void
module_clear_logs(unsigned count, const CUjit_option *options, void **values)
{
    static const float milliseconds;
    clear_log(value_of(CU_JIT_INFO_LOG_BUFFER, count, options, values),
              value_of(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, count, options, values));
    clear_log(value_of(CU_JIT_ERROR_LOG_BUFFER, count, options, values),
              value_of(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, count, options, values));
    void **time = value_of(CU_JIT_WALL_TIME, count, options, values);
    if (time != NULL) {
        memcpy(time, &milliseconds, sizeof milliseconds);
    }
}

/* ---- loading ---- */

static bool
write_all(int file, const unsigned char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(file, bytes, length);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return false;
        }
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

static int
make_file(const struct code *code)
{
    int file = memfd_create("softgpu-module", MFD_CLOEXEC | MFD_EXEC);
    if (file < 0 && errno == EINVAL) { /* an older Linux */
        file = memfd_create("softgpu-module", MFD_CLOEXEC);
    }
    if (file >= 0 && !write_all(file, code->bytes, code->length)) {
        close(file);
        return -1;
    }
    return file;
}

/* A path to the file that no load before had: "/." or "//." for each bit of a number. */
static void
write_path(int file, char *path, size_t room)
{
    static _Atomic uint32_t loads;
    uint32_t number = atomic_fetch_add(&loads, 1);
    size_t length = (size_t)snprintf(path, room, "/proc/self/fd");
    for (; number != 0; number >>= 1) {
        length += (size_t)snprintf(path + length, room - length, "%s", (number & 1) != 0 ? "/." : "//.");
    }
    snprintf(path + length, room - length, "/%d", file);
}

static void
find_range(struct link_map *map, struct module *module)
{
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)map->l_addr;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(map->l_addr + head->e_phoff);
    module->begin = map->l_addr;
    for (unsigned i = 0; i < head->e_phnum; ++i) {
        uintptr_t end = map->l_addr + parts[i].p_vaddr + parts[i].p_memsz;
        if (parts[i].p_type == PT_LOAD && end > module->end) {
            module->end = end;
        }
    }
}

static CUresult
open_library(const struct code *code, struct module *module_p)
{
    char path[256];
    int file = make_file(code);
    if (file < 0) {
        say("a module of %zu bytes cannot be kept in memory: %s", code->length, strerror(errno));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    write_path(file, path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        say("a module cannot be loaded: %s; compile it again", dlerror());
    }
    close(file);
    REQUIRE_ELSE(library != NULL, CUDA_ERROR_INVALID_IMAGE);

    struct module module = {NULL, NULL, 0, 0};
    struct link_map *map = NULL;
    const struct softgpu_module_kernel *const *kernels = dlsym(library, SOFTGPU_MODULE_KERNELS);
    void *variable_at = dlsym(library, "softgpu_variable_at"); /* of the libsoftgpu that it has brought, or found */
    if (kernels == NULL || variable_at == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) {
        say("a module without a list of its kernels: it was not made by softgpu-cc");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    module.kernels = *kernels;
    memcpy(&module.variable_at, &variable_at, sizeof variable_at);
    find_range(map, &module);
    *module_p = module;
    return CUDA_SUCCESS;
}

CUresult
module_load(const void *data, struct module *module_p)
{
    struct code code = {NULL, 0, NULL};
    CUresult result = module_is_text(data) ? open_text(data, &code) : open_cubin(data, &code);
    if (result == CUDA_SUCCESS && !is_whole(&code)) {
        say("a module of %zu bytes is not whole", code.length);
        result = module_is_text(data) ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
    }
    if (result == CUDA_SUCCESS) {
        result = open_library(&code, module_p);
    }
    free(code.decoded);
    return result;
}

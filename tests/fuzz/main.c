/*
 * main.c - the fuzzer: libFuzzer's two entry points, and the table of targets. run.sh starts it.
 *
 *     build/tests/fuzz/fuzz --target=NAME [libFuzzer's options and folders]
 *     build/tests/fuzz/fuzz --list
 *     build/tests/fuzz/fuzz --seeds=FOLDER
 *
 * One program for all, as they share most of their sources. libFuzzer itself passes over options with two dashes.
 */
#include "tests/fuzz/fuzz.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define TARGET(name)       \
    {                      \
#name, fuzz_##name \
    }
static const struct target {
    const char *name;
    fuzz_function *run;
} targets[] = {TARGET(options), TARGET(gpu_list),  TARGET(substitute), TARGET(elf),    TARGET(control),
               TARGET(status),  TARGET(handshake), TARGET(view),       TARGET(frames), TARGET(sealed),
               TARGET(auth),    TARGET(mangled),   TARGET(reference),  TARGET(scout),  TARGET(plan),
               TARGET(play),    TARGET(trace)};

static const struct target *chosen;
static char folder[64];

static _Noreturn void
list_and_leave(void)
{
    for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); ++t)
        printf("%s\n", targets[t].name);
    exit(0);
}

static void
remove_folder(void)
{
    rmdir(folder);
}

const char *
fuzz_folder(void)
{
    return folder;
}

void
fuzz_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: %s: %s\n", chosen != NULL ? chosen->name : "seeds", what);
    abort();
}

void
fuzz_require_error(const struct error *error, int exit_code)
{
    size_t length = strnlen(error->text, sizeof(error->text));
    fuzz_require(length > 0 && length < sizeof(error->text), "an error has a text");
    fuzz_require(error->exit_code == exit_code, "an error has its exit code");
}

char *
fuzz_text(const uint8_t *bytes, size_t count)
{
    return strndup((const char *)bytes, count);
}

uint8_t *
fuzz_copy(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count);
    fuzz_require(copy != NULL, "there is memory");
    return memcpy(copy, bytes, count);
}

struct json_object *
fuzz_json(const char *text, size_t length)
{
    struct json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *found = json_tokener_parse_ex(tokener, text, (int)length);
    fuzz_require(found != NULL, "what is written as JSON is JSON, in UTF-8");
    json_tokener_free(tokener);
    return found;
}

int
fuzz_file(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_require(fd >= 0 && write(fd, bytes, count) == (ssize_t)count, "a file can be made");
    return fd;
}

/* Nothing of the caller's surroundings may steer a target. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char option[] = "--target=", seeds[] = "--seeds=";
    for (int i = 1; i < *argc; ++i) {
        if (strcmp((*argv)[i], "--list") == 0)
            list_and_leave();
        if (strncmp((*argv)[i], seeds, strlen(seeds)) == 0) {
            fuzz_write_seeds((*argv)[i] + strlen(seeds));
            exit(0);
        }
        const char *name = strncmp((*argv)[i], option, strlen(option)) == 0 ? (*argv)[i] + strlen(option) : "";
        for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); ++t)
            chosen = strcmp(targets[t].name, name) == 0 ? &targets[t] : chosen;
    }
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%.40s/ddprun-fuzz-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (chosen == NULL || mkdtemp(folder) == NULL) {
        fprintf(stderr, "fuzz: --target=NAME wants one of the names that --list prints, and TMPDIR a folder\n");
        exit(2);
    }
    atexit(remove_folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    unsetenv("HOME");
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    chosen->run(bytes, count);
    return 0;
}

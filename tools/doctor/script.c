/*
 * script.c - the doctor's look at a script: who interprets it, and whether it says something that takes the preload
 * away.
 */
#include "tools/doctor/examine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TEXT_BYTES = 65536 };

/* Words after which a program starts with a cleaned environment, or with other rights, where nothing is preloaded. */
static const char *const hazards[] = {"LD_PRELOAD", "env -i",     "env -",       "sudo",      "su -",
                                      "docker run", "podman run", "singularity", "apptainer", "mpirun",
                                      "mpiexec",    "srun",       "torchrun"};

/* The word stands by itself: not in a longer one, not in a path's middle. */
static bool
is_word(const char *text, size_t length, size_t at, size_t bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    char before = at > 0 ? text[at - 1] : ' ', after = at + bytes < length ? text[at + bytes] : ' ';
    return (before == '/' || before == '\0' || strchr(letters, before) == NULL) &&
           (after == '\0' || strchr(letters, after) == NULL);
}

/* From the first word of a line that begins with # to its end is a comment, in all languages of interest. */
static bool
is_comment(const char *text, size_t at)
{
    size_t begin = at;
    while (begin > 0 && text[begin - 1] != '\n')
        --begin;
    while (begin < at && (text[begin] == ' ' || text[begin] == '\t'))
        ++begin;
    return text[begin] == '#';
}

const char *
script_find_hazard(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof(hazards) / sizeof(hazards[0]); ++i) {
        size_t bytes = strlen(hazards[i]);
        const char *found = text;
        while ((found = memmem(found, length - (size_t)(found - text), hazards[i], bytes)) != NULL) {
            size_t at = (size_t)(found - text);
            if (is_word(text, length, at, bytes) && !is_comment(text, at))
                return hazards[i];
            found += bytes;
        }
    }
    return NULL;
}

void
examine_script(struct examination *examination)
{
    const struct program *program = examination->program;
    struct findings *findings = examination->findings;
    findings_say(findings, FINDING_NOTE, "file",
                 "examine the program that it starts too: ddprun doctor PROGRAM; and say --device softgpu if that was "
                 "built by softgpu-cc",
                 "a script for %s, which the shim passes through without effect", program->interpreter);

    char *text = malloc(MOST_TEXT_BYTES);
    int fd = open(program->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = text != NULL && fd >= 0 ? pread(fd, text, MOST_TEXT_BYTES, 0) : -1;
    const char *hazard = got > 0 ? script_find_hazard(text, (size_t)got) : NULL;
    if (hazard != NULL)
        findings_say(findings, FINDING_WARNING, "script",
                     "see that the trainer keeps LD_PRELOAD and the variables _DDPRUN_* and RANK, and is started "
                     "once by each rank",
                     "it says '%s', which may keep the shim from the trainer", hazard);
    if (fd >= 0)
        close(fd);
    free(text);
}

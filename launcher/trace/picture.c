/*
 * picture.c - see picture.h.
 */
#include "launcher/trace/picture.h"

#include "base/protocol.h"
#include "launcher/output/whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool
take_word(const char *command, struct picture_request *request, char *const **words, struct error *error)
{
    const char *word = **words;
    const char *joined = strncmp(word, "--output=", 9) == 0 ? word + 9 : NULL;
    if (strcmp(word, "--help") == 0) {
        request->help = true;
    } else if (joined != NULL) {
        request->file = joined;
    } else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0) {
        if ((*words)[1] == NULL)
            return error_set(error, DDPRUN_EXIT_USAGE, "option %s wants a file; see ddprun %s --help", word, command);
        request->file = *++*words;
    } else if (word[0] == '-') {
        return error_set(error, DDPRUN_EXIT_USAGE, "unknown option %s of %s; see ddprun %s --help", word, command,
                         command);
    } else if (request->folder != NULL) {
        return error_set(error, DDPRUN_EXIT_USAGE, "%s takes one folder, and gets %s and %s; see ddprun %s --help",
                         command, request->folder, word, command);
    } else {
        request->folder = word;
    }
    return true;
}

bool
picture_parse(char *const *words, const char *what, const char *example, struct picture_request *request,
              struct error *error)
{
    const char *command = words[0];
    *request = (struct picture_request){0};
    for (++words; *words != NULL && !request->help; ++words) {
        if (!take_word(command, request, &words, error))
            return false;
    }
    if (request->help)
        return true;
    if (request->folder == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "no folder given, after %s; write for example: ddprun %s DIR -o %s (see ddprun %s --help)",
                         command, command, example, command);
    if (request->file == NULL || request->file[0] == '\0')
        return error_set(error, DDPRUN_EXIT_USAGE, "no file for the %s; write for example: ddprun %s %s -o %s", what,
                         command, request->folder, example);
    return strcmp(request->file, "-") == 0 || whole_file_check(request->file, "-o", error);
}

bool
picture_read(const char *folder, struct trace *trace, struct error *error)
{
    if (!trace_read(folder, trace, error))
        return false;
    for (size_t i = 0; i < trace->run_count; ++i) {
        if (trace->runs[i].step_count > 0)
            return true;
    }
    return error_set(
        error, DDPRUN_EXIT_FAILURE,
        "the trace in %s has no steps: a job of one rank has none, nor has one that ended before its first "
        "DDP_STEP",
        folder);
}

void
picture_begin(struct picture *picture)
{
    *picture = (struct picture){0};
    picture->out = open_memstream(&picture->text, &picture->bytes);
}

bool
picture_end(struct picture *picture, const char *file, const char *option, struct error *error)
{
    bool ok = picture->out != NULL && !ferror(picture->out);
    ok = picture->out != NULL && fclose(picture->out) == 0 && ok;
    mode_t mask = umask(077);
    if (ok && strcmp(file, "-") == 0)
        ok = fwrite(picture->text, 1, picture->bytes, stdout) == picture->bytes;
    else
        ok = ok && whole_file_write_bytes(file, picture->text, picture->bytes);
    int cause = errno;
    umask(mask);
    free(picture->text);
    return ok || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s, in %s: %s", file, option, strerror(cause));
}

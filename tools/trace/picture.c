/*
 * picture.c - see picture.h.
 */
#include "tools/trace/picture.h"

#include "base/message.h"
#include "base/protocol.h"
#include "launcher/common/xcalloc.h"
#include "launcher/options/option_rows.h"
#include "launcher/output/whole_file.h"
#include "tools/common/tool_options.h"

#include <json-c/json.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define OPTION_TARGET struct picture_request
const struct option_row picture_rows[] = {{.name = "output",
                                           .letter = 'o',
                                           .argument = "FILE",
                                           TEXT(file, "a file"),
                                           .help = "write to FILE, for its owner alone; -: standard output; .gz: gzip"},
                                          HELP_ROW,
                                          {0}};

bool
picture_take(const struct command *command, const char *what, char **words, struct picture_request *request,
             int *exit_code)
{
    char **rest;
    struct error error;
    *request = (struct picture_request){0};
    if (!command_begin(command, words, request, &rest, exit_code))
        return false;
    request->folder = rest[0];
    bool ok = true;
    if (rest[1] != NULL)
        ok = error_set(&error, DDPRUN_EXIT_USAGE, "%s takes one folder, and gets %s and %s; see ddprun %s --help",
                       command->name, rest[0], rest[1], command->name);
    else if (request->file == NULL)
        ok = error_set(&error, DDPRUN_EXIT_USAGE, "no file for the %s; write for example: %s", what, command->example);
    else if (strcmp(request->file, "-") != 0)
        ok = whole_file_check(request->file, "-o", &error);
    if (!ok) {
        message_line("%s", error.text);
        *exit_code = error.exit_code;
    }
    return ok;
}

/* The launcher has added why the job failed: that is worth a picture without any step. */
static bool
has_failed(const struct trace_run *run)
{
    json_object *summary, *code;
    return json_object_object_get_ex(run->told, "summary", &summary) &&
           json_object_object_get_ex(summary, "exit_code", &code) && json_object_get_int(code) != 0;
}

bool
picture_read(const char *folder, bool ends, struct trace *trace, struct error *error)
{
    if (!trace_read(folder, trace, error))
        return false;
    for (size_t i = 0; i < trace->run_count; ++i) {
        if (trace->runs[i].step_count > 0 || (ends && has_failed(&trace->runs[i])))
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

/* Compresses a file whose name ends in .gz, by gzip (RFC 1952). False: the file is still as it was. */
static bool
compress_for(const char *file, struct picture *picture)
{
    enum { GZIP_WINDOW = 15 + 16 }; /* deflateInit2(): the largest window, and gzip's header */
    size_t length = strlen(file);
    if (length < 3 || strcmp(file + length - 3, ".gz") != 0)
        return true;
    z_stream stream = {0};
    if (picture->bytes > UINT_MAX ||
        deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        errno = ENOMEM;
        return false;
    }
    uLong room = deflateBound(&stream, (uLong)picture->bytes);
    char *packed = xcalloc(1, room);
    stream.next_in = (Bytef *)picture->text;
    stream.avail_in = (uInt)picture->bytes;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)room;
    bool ok = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    picture->bytes = stream.total_out;
    (void)deflateEnd(&stream);
    free(picture->text);
    picture->text = packed;
    errno = ok ? 0 : EIO;
    return ok;
}

bool
picture_end(struct picture *picture, const char *file, const char *option, struct error *error)
{
    bool ok = picture->out != NULL && !ferror(picture->out);
    ok = picture->out != NULL && fclose(picture->out) == 0 && ok;
    ok = ok && compress_for(file, picture);
    mode_t mask = umask(077);
    if (ok && strcmp(file, "-") == 0)
        ok = fwrite(picture->text, 1, picture->bytes, stdout) == picture->bytes;
    else
        ok = ok && whole_file_write_bytes(file, picture->text, picture->bytes);
    int cause = errno;
    umask(mask);
    free(picture->text);
    return ok || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s, in %s: %s", file, option, file_why(cause));
}

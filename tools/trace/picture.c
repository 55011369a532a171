/* picture.c - see picture.h. */
#include "tools/trace/picture.h"

#include "base/protocol.h"
#include "launcher/options/option_rows.h"
#include "launcher/output/whole_file.h"
#include "tools/common/tool_options.h"
#include "tools/trace/step_table.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define OPTION_TARGET struct picture_request
const struct option_row picture_rows[] = {{.name = "output",
                                           .letter = 'o',
                                           .argument = "FILE",
                                           TEXT(file, "a file"),
                                           .help = "write to FILE, readable by its owner only; -: standard output"},
                                          HELP_ROW,
                                          {0}};

static bool
take_request(const struct picture *picture, const struct command *command, char *const *rest,
             struct picture_request *request, struct error *error)
{
    request->folder = rest[0];
    if (rest[1] != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s takes one folder, and gets %s and %s; see ddprun %s --help",
                         command->name, rest[0], rest[1], command->name);
    if (request->file == NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "no output file for the %s; write for example: %s", picture->name,
                         command->example);
    size_t length = strlen(request->file);
    if (length > 3 && strcmp(request->file + length - 3, ".gz") == 0)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s does not compress %s; write -o - | gzip >%s", command->name,
                         request->file, request->file);
    return strcmp(request->file, "-") == 0 || whole_file_check(request->file, "-o", error);
}

int
picture_run(const struct picture *picture, const struct command *command, char **words)
{
    struct picture_request request = {0};
    struct error error;
    char **rest;
    int exit_code;
    if (!command_begin(command, words, &request, &rest, &exit_code))
        return exit_code;
    return command_end(take_request(picture, command, rest, &request, &error) &&
                           picture_make(picture, request.folder, request.file, "-o", &error),
                       &error);
}

/* Without steps a page is made of a job that failed, and of one rank, whose trace has none. */
static bool
is_told(const struct trace_run *run, bool ends)
{
    if (!ends || run->summary == NULL)
        return false;
    return facts_number(run->summary, "exit_code") > 0 || (run->world == 1 && facts_number(run->summary, "steps") > 0);
}

bool
picture_read(const char *folder, bool ends, struct trace *trace, struct error *error)
{
    if (!trace_read(folder, trace, error))
        return false;
    return ANY(run, trace->runs, trace->run_count, run->step_count > 0 || is_told(run, ends)) ||
           error_set(error, DDPRUN_EXIT_FAILURE,
                     "the trace in %s has no steps: the job had one rank, or ended before its first DDP_STEP", folder);
}

/* `ok`: the content is whole; errno, where it is not. */
static bool
write_file(bool ok, const char *file, const char *text, size_t bytes, const char *option, struct error *error)
{
    mode_t mask = umask(077);
    if (ok && strcmp(file, "-") == 0)
        ok = fwrite(text, 1, bytes, stdout) == bytes;
    else
        ok = ok && whole_file_write(file, text, bytes);
    int cause = errno;
    umask(mask);
    return ok || error_set(error, DDPRUN_EXIT_FAILURE, "cannot write %s, in %s: %s", file, option, file_why(cause));
}

bool
picture_make(const struct picture *picture, const char *folder, const char *file, const char *option,
             struct error *error)
{
    struct trace trace;
    bool ok = picture_read(folder, picture->ends, &trace, error);
    for (size_t i = 0; ok && i < trace.remark_count; ++i)
        message_line("%s: %s", picture->command, trace.remarks[i]);
    if (ok) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        if (out != NULL)
            picture->write(out, &trace);
        ok = out != NULL && !ferror(out);
        ok = out != NULL && fclose(out) == 0 && ok;
        ok = write_file(ok, file, text, bytes, option, error);
        free(text);
    }
    trace_free(&trace);
    return ok;
}

/* page.c - see page.h. */
#include "tools/page/page.h"

#include "tools/common/tool_options.h"
#include "tools/page/html.h"
#include "tools/page/sections.h"
#include "tools/trace/picture.h"

void
page_write(FILE *out, const struct trace *trace, const struct run_clock *clocks)
{
    struct facts facts;
    char why[512] = "";
    facts_find(trace, clocks, &facts);
    struct model *model = model_of_facts(&facts, why, sizeof(why));
    fputs("<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
          "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
          "<meta name='color-scheme' content='light dark'>\n<meta name='generator' content='ddprun'>\n<title>",
          out);
    html_text(out, facts.program[0] != '\0' ? facts.program : "A training");
    html_put(out, " on %d rank%s - ddprun report</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", facts.world,
             facts.world == 1 ? "" : "s", page_style);
    section_overview(out, &facts, model, why);
    section_failure(out, &facts);
    section_warnings(out, &facts);
    section_steps(out, &facts);
    section_spread(out, &facts);
    section_timeline(out, &facts);
    section_means(out, &facts);
    section_buckets(out, &facts);
    section_settings(out, &facts);
    fputs("<footer>Made by ddprun report from the run's trace. Medians do not add up exactly.</footer>\n"
          "</main>\n</body>\n</html>\n",
          out);
    model_free(model);
    facts_free(&facts);
}

static const struct picture page = {.command = "report", .name = "page", .ends = true, .write = page_write};

bool
page_make(const char *folder, const char *file, const char *option, struct error *error)
{
    return picture_make(&page, folder, file, option, error);
}

/* Two folders are compared, on standard output. */
static int
run_report(const struct command *command, const struct options *options)
{
    struct error error;
    char *const *words = options->program;
    if (words[1] != NULL && words[1][0] != '-' && words[2] != NULL && words[2][0] != '-' && words[3] == NULL)
        return command_end(page_compare(words + 1, &error), &error);
    return picture_run(&page, command, options->program);
}

const struct command report_command = {
    .name = "report",
    .brief = "one HTML page of the same: what cost time, stragglers, curves",
    .usage = "Usage: ddprun report DIR -o FILE\n"
             "       ddprun report DIR DIR\n\n"
             "Makes one HTML page of what ddprun --trace DIR has written: how fast the run was,\n"
             "what cost time and what saves it, step times by rank, one step's timeline,\n"
             "stragglers, curves of DDP_MEAN, buckets and tensors, and\n"
             "the settings. The page needs no network and no script. Of two folders it prints the\n"
             "figures of the two runs side by side, with the difference.\n",
    .notes = "ddprun --page FILE makes it at the end of a run.\n\n"
             "Exit codes: 0: written, with what is missing named on the page and here;\n"
             "1: there is no trace that can be read, or FILE cannot be written; 2: wrong options.\n",
    .wants = "folder",
    .example = "ddprun report DIR -o report.html",
    .mixes = true,
    .rows = picture_rows,
    .run = run_report,
};

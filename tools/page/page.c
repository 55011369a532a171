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
    fputs("<footer>Made by ddprun report from the run's trace. The medians of a step's parts do not add up to the "
          "median of the step.</footer>\n"
          "</main>\n"
          "</body>\n"
          "</html>\n",
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
    .brief = "make an HTML page from a trace: lost time, stragglers, curves",
    .usage = "Usage: ddprun report DIR -o FILE\n"
             "       ddprun report DIR DIR\n\n"
             "Makes one HTML page from the trace that ddprun --trace DIR wrote: the speed of the\n"
             "run, lost time and how to save it, step times by rank, one step's timeline,\n"
             "stragglers, curves of DDP_MEAN, buckets and tensors, and the settings. The page\n"
             "needs no network and no script. With two folders it prints the figures of the two\n"
             "runs side by side, with their difference.\n",
    .notes = "ddprun --page FILE makes the page at the end of a run.\n\n"
             "Exit codes: 0: written; the page and a line on stderr name missing parts;\n"
             "1: no readable trace, or FILE cannot be written; 2: wrong options.\n",
    .wants = "folder",
    .example = "ddprun report DIR -o report.html",
    .mixes = true,
    .rows = picture_rows,
    .run = run_report,
};

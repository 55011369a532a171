/* page.c - see page.h: a report in its page, which has it as text (html.c) and as data. */
#include "tools/page/page.h"

#include "tools/page/report.h"
#include "tools/trace/picture.h"

#include <json-c/json.h>

/* page.html with page.css and page.js in it; holes in it are named by comments. */
extern const char page_html[];

json_object *
report_make(const struct trace *trace)
{
    struct facts facts;
    json_object *report = json_object_new_object();
    facts_find(trace, &facts);
    json_object_object_add(report, "ddprun_report", json_object_new_int(REPORT_VERSION));
    section_head(report, &facts);
    section_verdict(report, &facts);
    section_ends(report, &facts);
    section_late(report, &facts);
    section_steps(report, &facts);
    section_timeline(report, &facts);
    section_means(report, &facts);
    section_buckets(report, &facts);
    section_settings(report, &facts);
    facts_free(&facts);
    return report;
}

void
page_write(FILE *out, const struct trace *trace)
{
    static const struct {
        const char *hole;
        void (*fill)(FILE *out, json_object *report);
    } holes[] = {{"<!--title-->", html_put_title}, {"<!--body-->", html_put_body}, {"<!--report-->", html_put_data}};
    json_object *report = report_make(trace);
    const char *at = page_html;
    for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); ++i) {
        const char *hole = strstr(at, holes[i].hole);
        fwrite(at, 1, (size_t)(hole - at), out);
        holes[i].fill(out, report);
        at = hole + strlen(holes[i].hole);
    }
    fputs(at, out);
    json_object_put(report);
}

const struct picture page_picture = {.command = "report", .name = "page", .ends = true, .write = page_write};

bool
page_make(const char *folder, const char *file, const char *option, struct error *error)
{
    return picture_make(&page_picture, folder, file, option, error);
}

/*
 * prediction.c - what a step would take on other numbers of ranks, by the model of launcher/predict.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include <math.h>

static bool
put_row(FILE *out, const struct model *model, unsigned ranks, bool is_this)
{
    char text[FIGURE_BYTES];
    struct prediction prediction;
    if (!model_predict(model, ranks, NULL, &prediction))
        return false;
    struct bar_part bar = {"plain", 100 * prediction.efficiency, "efficiency"};
    html_put(out, "<tr><th scope='row'>%u%s</th>", ranks, is_this ? " (this run, measured)" : "");
    chart_bar_cell(out, &bar, 1);
    html_figure_cell(out, figure_percent(prediction.efficiency, text));
    html_figure_cell(out, figure_time(prediction.step_us, text));
    html_figure_cell(out, figure_time(prediction.exposed_us, text));
    html_figure_cell(out, figure_plain(ranks * prediction.efficiency, text));
    fputs("</tr>\n", out);
    return true;
}

static void
put_rows(FILE *out, const struct facts *facts, const struct model *model)
{
    enum { MOST = 256 };
    unsigned own = (unsigned)facts->world;
    bool written = false;
    for (unsigned ranks = 2; ranks <= MOST; ranks *= 2) {
        if (own > ranks / 2 && own < ranks)
            (void)put_row(out, model, own, true);
        written = put_row(out, model, ranks, ranks == own) || written;
    }
    if (!written)
        fputs("<tr><td colspan='6'>The trace does not show what an all-reduce costs.</td></tr>\n", out);
}

void
section_prediction(FILE *out, const struct facts *facts, const struct model *model, const char *why)
{
    html_section(out, "prediction", "Other numbers of ranks",
                 "This run as it was measured; others are predicted and scaled to it: each rank's share of the batch "
                 "is as large "
                 "as here, and the links are those of this run, as a ring. Of several hosts, a slower link counts: "
                 "<span class='code'>ddprun "
                 "predict --link</span>.");
    if (facts->group_count > 1)
        html_put(
            out,
            "<p class='caption'>Of the steps of group %d; what other groups do meanwhile counts as its own work.</p>\n",
            facts->group);
    if (model == NULL) {
        fputs("<p>No prediction: ", out);
        html_text(out, why);
        fputs(".</p>\n</section>\n", out);
        return;
    }
    html_table(out, "Predictions", "Ranks|Efficiency|#|#Step|#Exposed|#Times one rank");
    put_rows(out, facts, model);
    fputs("</tbody></table></div>\n</section>\n", out);
}

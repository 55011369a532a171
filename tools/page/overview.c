/*
 * overview.c - whose run it was, what its trace lacks, and the verdict: how fast, what cost most, and what saves it.
 */
#include "tools/page/html.h"
#include "tools/page/sections.h"

#include <json-c/json.h>

#include <math.h>
#include <string.h>
#include <time.h>

enum { SENTENCES = 2 }; /* of losses */

static void
put_place(FILE *out, const struct facts *facts)
{
    size_t hosts = 0;
    for (size_t r = 0; r < facts->rank_count; ++r) {
        bool before = false;
        for (size_t i = 0; i < r && !before; ++i)
            before = strcmp(facts->ranks[i].run->host, facts->ranks[r].run->host) == 0;
        hosts += !before;
    }
    html_put(out, "%d rank%s on ", facts->world, facts->world == 1 ? "" : "s");
    if (hosts == 1)
        html_text(out, facts->first->host);
    else
        html_put(out, "%zu hosts", hosts);
}

static void
put_date(FILE *out, const struct facts *facts)
{
    char text[64];
    time_t begun = (time_t)(facts->first->unix_ns / 1000000000);
    struct tm utc;
    if (facts->first->unix_ns > 0 && gmtime_r(&begun, &utc) != NULL &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc) > 0)
        html_put(out, " &#183; %s", text);
}

static void
put_end(FILE *out, const struct facts *facts)
{
    double code = facts_number(facts->summary, "exit_code");
    const char *reason = facts_string(facts->summary, "reason");
    if (isnan(code) || (code == 0 && reason[0] == '\0'))
        return;
    html_put(out, "<p class='bad'>The job failed with exit code %.0f: ", code);
    html_text(out, reason);
    fputs("</p>\n", out);
}

/* Not only of a job that failed: one that trains on has lost its parameters, too. */
static void
put_nonfinite(FILE *out, const struct facts *facts)
{
    json_object *nonfinite;
    if (!json_object_object_get_ex(facts->summary, "nonfinite", &nonfinite) || nonfinite == NULL)
        return;
    fputs("<p class='bad' id='run-nonfinite'>", out);
    html_text(out, facts_string(nonfinite, "text"));
    fputs("</p>\n", out);
}

static void
put_remarks(FILE *out, const struct trace *trace)
{
    if (trace->remark_count == 0)
        return;
    fputs(
        "<div class='remarks' id='remarks'>The trace is incomplete. The page shows the parts that could be read.<ul>\n",
        out);
    for (size_t i = 0; i < trace->remark_count; ++i) {
        fputs("<li>", out);
        html_text(out, trace->remarks[i]);
        fputs("</li>\n", out);
    }
    fputs("</ul></div>\n", out);
}

/* ---- the verdict ---- */

/* Which steps figures are of. */
static const char *
window_text(const struct facts *facts, char text[96])
{
    snprintf(text, 96, "steps %llu to %llu", (unsigned long long)facts->first_counted,
             (unsigned long long)facts->last_counted);
    return text;
}

/* What a step takes, and loses: of the window. What it would take without that is the model's, of the same steps. */
static void
put_step(FILE *out, const struct facts *facts, const struct model *model)
{
    char time[FIGURE_BYTES], lost[FIGURE_BYTES], part[FIGURE_BYTES], window[96];
    struct prediction alone, own;
    html_put(out, "<p class='lead'><strong>A step takes %s</strong>", figure_time(facts->step_us, time));
    if (!isnan(facts->exposed_us))
        html_put(out, ", with %s (%s) of exposed communication (median)", figure_time(facts->exposed_us, lost),
                 figure_percent(facts->exposed_us / facts->step_us, part));
    if (!isnan(facts->waiting_us) && facts->rank_count > 1)
        html_put(out, " and %s (%s) of waiting for other ranks (mean)", figure_time(facts->waiting_us, lost),
                 figure_percent(facts->waiting_us / facts->step_us, part));
    if (facts->counted > 0)
        html_put(out, facts->is_mean ? "; the step is the mean of %s" : "; the step is the median of %s",
                 window_text(facts, window));
    if (facts->group_count > 1)
        html_put(out, ", from one step of group %d to the next step of that group", facts->group);
    if (model != NULL && model_is_noisy(model))
        fputs(". Steps vary too much to say what averaging costs", out);
    else if (model != NULL && facts->world > 1 && model_predict(model, 1, NULL, &alone) &&
             model_predict(model, (unsigned)facts->world, NULL, &own))
        html_put(out, ". Without averaging a step would take %s: the efficiency is %s",
                 figure_time(alone.step_us, time), figure_percent(own.efficiency, part));
    fputs(".</p>\n", out);
}

static void
put_speed(FILE *out, const struct facts *facts)
{
    char rate[FIGURE_BYTES];
    html_put(out, "<p class='lead'>%d rank%s made %s steps per second after start-up", facts->world,
             facts->world == 1 ? "" : "s", figure_plain(facts->steps_per_s, rate));
    if (facts->group_count > 1)
        html_put(out, ", over %zu gradient groups", facts->group_count);
    fputs(".</p>\n", out);
    double batches = facts_number(facts->summary, "batches"), each = facts_number(facts->summary, "batches_per_step");
    if (!isnan(batches) && !isnan(each))
        html_put(out,
                 "<p class='lead' id='turns'>With <span class='option'>--plan</span> a step is a round of %.0f of the "
                 "program's %.0f batches. Each rank computed one batch of a round.</p>\n",
                 each, batches);
}

static void
put_loss(FILE *out, const struct facts *facts, const struct loss *loss, const char *which)
{
    char gain[FIGURE_BYTES], part[FIGURE_BYTES];
    html_put(out, "<p class='lead'>%s: ", which);
    html_text(out, loss->what);
    fputs("; <strong>", out);
    html_text(out, loss->advice);
    html_put(out, "</strong>; possible gain: %s %s per step (%s).</p>\n", loss->at_most ? "up to" : "about",
             figure_time(loss->gain_us, gain), figure_percent(loss->gain_us / facts->step_us, part));
}

static void
put_losses(FILE *out, const struct facts *facts, const struct model *model, const char *why)
{
    static const char *const names[SENTENCES] = {"Largest loss of time", "Next largest loss"};
    struct loss losses[SENTENCES];
    size_t count = model != NULL ? model_losses(model, losses, SENTENCES) : 0;
    for (size_t i = 0; i < count && i < SENTENCES; ++i)
        put_loss(out, facts, &losses[i], names[i]);
    if (model == NULL) {
        fputs("<p class='lead'>Possible gains are not known: ", out);
        html_text(out, why);
        fputs(".</p>\n", out);
    } else if (count == 0) {
        fputs("<p class='lead'>No option of ddprun would save 1 % of a step or more.</p>\n", out);
    }
}

/* A tile with a figure; `id`: the member of the summary that it is, whose value readers of the page find there. */
static void
put_tile(FILE *out, const char *name, const char *id, double value, const char *figure, const char *note)
{
    html_put(out, "<div><dt>%s</dt><dd>", name);
    if (isnan(value))
        html_put(out, "<span id='run-%s'>-</span>", id);
    else
        html_put(out, "<data id='run-%s' value='%.5g'>%s</data>", id, value, figure);
    html_put(out, "<small>%s</small></dd></div>\n", note);
}

/* A figure of the summary; of several groups all are in it, elsewhere the page is of one. */
static double
said_ms(const struct facts *facts, const char *name, double shown_us)
{
    double said = facts_number(facts->summary, name);
    return isnan(said) ? shown_us / 1e3 : said;
}

static void
put_waits(FILE *out, const struct facts *facts)
{
    char text[FIGURE_BYTES], note[128], bound[FIGURE_BYTES] = "", planned[FIGURE_BYTES], window[96];
    double exposed_ms = said_ms(facts, "exposed_ms", facts->exposed_us);
    double waiting_ms = said_ms(facts, "waiting_ms", facts->waiting_us), bound_us = facts->bound_us;
    snprintf(note, sizeof(note), isnan(bound_us) ? "per step; lower bound not known" : "per step; lower bound %s",
             figure_time(bound_us, bound));
    if (!isnan(facts->predicted_us))
        snprintf(note, sizeof(note), "per step; planned %s, lower bound %s", figure_time(facts->predicted_us, planned),
                 bound);
    put_tile(out, "Exposed communication", "exposed_ms", exposed_ms, figure_time(exposed_ms * 1e3, text), note);
    if (facts->waited.straggler >= 0)
        snprintf(note, sizeof(note), "for rank %d, per step; %s", facts->ranks[facts->waited.straggler].run->rank,
                 window_text(facts, window));
    else
        snprintf(note, sizeof(note), "each other, per step; mean of %s", window_text(facts, window));
    put_tile(out, "Waiting for ranks", "waiting_ms", waiting_ms, figure_time(waiting_ms * 1e3, text), note);
}

static void
put_tiles(FILE *out, const struct facts *facts)
{
    char text[FIGURE_BYTES], note[96];
    double seconds = facts_number(facts->summary, "seconds");
    double steps = facts_number(facts->summary, "steps"), overlapped = facts_number(facts->summary, "overlapped_steps");
    fputs("<dl class='tiles'>\n", out);
    put_tile(out, "Steps per second", "steps_per_second", facts->steps_per_s, figure_plain(facts->steps_per_s, text),
             "mean after start-up");
    double items = facts_number(facts->summary, "items_per_second");
    if (!isnan(items))
        put_tile(out, "Items per second", "items_per_second", items, figure_plain(items, text),
                 "of DDP_SHARD, over all ranks");
    put_waits(out, facts);
    snprintf(note, sizeof(note), isnan(overlapped) ? "in the trace" : "%.0f of them overlapped", overlapped);
    put_tile(out, "Steps", "steps", isnan(steps) ? (double)facts->step_count : steps,
             figure_count((uint64_t)(isnan(steps) ? (double)facts->step_count : steps), text), note);
    put_tile(out, "Wall time", "seconds", seconds, figure_time(seconds * 1e6, text), "from start to end");
    fputs("</dl>\n", out);
}

void
section_overview(FILE *out, const struct facts *facts, const struct model *model, const char *why)
{
    fputs("<header><p class='brand'>ddprun</p>\n<h1>", out);
    html_text(out, facts->program[0] != '\0' ? facts->program : "A training");
    fputs("</h1>\n<p>", out);
    put_place(out, facts);
    put_date(out, facts);
    fputs("</p>\n", out);
    put_end(out, facts);
    put_nonfinite(out, facts);
    put_remarks(out, facts->trace);
    fputs("</header>\n<section id='verdict' aria-label='Verdict'>\n", out);
    put_step(out, facts, model);
    put_speed(out, facts);
    put_losses(out, facts, model, why);
    put_tiles(out, facts);
    fputs("</section>\n", out);
}
